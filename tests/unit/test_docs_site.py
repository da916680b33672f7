"""What `make docs` looks for in the site: links that lead nowhere, and what is loaded from other hosts."""
import importlib.util

import pytest

from tests.support import tree

spec = importlib.util.spec_from_file_location("docs_site", str(tree.ROOT / "scripts/docs_site.py"))
docs_site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(docs_site)

GOOD = '<h1 id="top">x</h1><a href="b.html#there">b</a><a href="#top">up</a><a href="https://example.org">far</a>'


@pytest.mark.parametrize("added, said", [
    ("", None), ('<a href="c.html">c</a>', "a.html leads to c.html"), ('<a href="b.html#no">', "leads to b.html#no"),
    ('<a href="#nowhere">', "leads to #nowhere"), ('<script src="https://example.org/x.js">', "a.html loads https://"),
    ('<link href="//example.org/x.css">', "loads //example.org"),
    ('<link rel="canonical" href="https://e.org">', None)])
def test_a_link_that_leads_nowhere_and_a_far_script_are_named(added, said, tmp_path, capsys):
    (tmp_path / "a.html").write_text(GOOD + added)
    (tmp_path / "b.html").write_text('<p id="there">')
    assert docs_site.check(str(tmp_path)) == (0 if said is None else 1)
    assert (said or "") in capsys.readouterr().err


def test_documents_are_laid_out_with_all_that_they_link_to(tmp_path):
    assert docs_site.lay_out(str(tmp_path / "docs")) == 0
    for name in ("README.md", "docs/index.md", "docs/pictures/usual_programs.svg", "examples/README.md",
                 "examples/two_tables/README.md"):
        assert (tmp_path / "docs" / name).is_file(), name


def test_a_link_whose_text_is_the_name_of_a_page_gets_the_title_of_the_page(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("see [a.md](docs/a.md) and [this](docs/a.md), [b.md](docs/b.md)\n")
    (tmp_path / "docs/a.md").write_text("# Page A\n\ntext\n")
    (tmp_path / "docs/b.md").write_text("no title\n")
    monkeypatch.setattr(docs_site, "ROOT", tmp_path)
    assert docs_site.lay_out(str(tmp_path / "out")) == 0
    assert (tmp_path / "out/README.md").read_text() == (
        "see [Page A](docs/a.md) and [this](docs/a.md), [b.md](docs/b.md)\n")


def test_a_document_that_is_linked_to_and_not_there_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("[a](docs/nothing.md)\n```\n[b](docs/code.md)\n```\n")
    monkeypatch.setattr(docs_site, "ROOT", tmp_path)
    assert docs_site.lay_out(str(tmp_path / "out")) == 1
    assert capsys.readouterr().err == "docs: a link refers to docs/nothing.md, which does not exist\n"
