"""What the documents name exists: files, make verbs, commands, settings, tests."""
import ast
import re

import pytest
import tomli

from tests.support import tree

DOCS = sorted(path for path in tree.text_files(".md") if not tree.name(path).startswith("tests/house"))

WIDEST = 120
MOST_FILES_OF_A_BATCH, MOST_FILES_OF_A_PLAN = 40, 5  # a newcomer reads along
WIDEST_ROW = 160  # a row of a table cannot be broken; what is wider is a list


def name_of(path):
    return tree.name(path)


def test_the_documents_a_newcomer_needs_are_there():
    for needed in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/internals/ARCHITECTURE.md",
                   "docs/reference/glossary.md", "docs/internals/shm_layout.md", "docs/internals/protocol.md",
                   "docs/internals/failure_model.md", "docs/index.md", "docs/how-to/operations.md",
                   "docs/internals/testing.md", "workers/README.md"):
        assert (tree.ROOT / needed).exists(), needed


@pytest.mark.parametrize("path", DOCS, ids=name_of)
def test_lines_fit_the_screen_and_rows_of_tables_nearly(path):
    assert not ["{}: {}".format(number, line[:80]) for number, line in enumerate(tree.lines(path), 1)
                if len(line) > (WIDEST_ROW if line.startswith("|") else WIDEST)]


def test_every_module_of_the_workers_is_named_in_their_readme():
    text = (tree.ROOT / "workers/README.md").read_text()
    assert not [path.name for path in sorted((tree.ROOT / "workers").glob("*.py"))
                if path.name != "__init__.py" and path.name not in text]


def test_every_c_plus_plus_source_is_named_in_the_readme_of_the_sources():
    named = set(re.findall(r"^\| `(\w+)` \|", (tree.ROOT / "tfops/src/README.md").read_text(), re.MULTILINE))
    assert named == {path.stem for path in (tree.ROOT / "tfops/src").glob("*/*") if path.suffix in (".cc", ".h")}


@pytest.mark.parametrize("path", DOCS, ids=name_of)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text())
    assert not [link for link in links if not (path.parent / link).exists()]


@pytest.mark.parametrize("path", DOCS, ids=name_of)
def test_files_that_are_named_exist(path):
    folders = "|".join(tree.EVERYTHING)
    names = re.findall(r"`((?:{})/[\w./*-]+)`".format(folders), path.read_text())
    missing = [named for named in names if not list(tree.ROOT.glob(named.rstrip("/")))]
    assert not missing


def test_a_batch_is_followed_through_few_files():
    text = (tree.ROOT / "docs/internals/ARCHITECTURE.md").read_text()
    path = re.search(r"^## Follow one batch.*?\n(.*?)^## ", text, re.M | re.S).group(1)
    steps = re.split(r"^\d+\. ", path, flags=re.M)[1:]
    named = [set(re.findall(r"`([\w/.-]+\.(?:py|cc|h))`", step)) for step in steps]
    assert len(steps) == 10 and steps[5].startswith("**Touched and planned.**")
    assert len(set.union(*named)) <= MOST_FILES_OF_A_BATCH
    assert len(named[5]) <= MOST_FILES_OF_A_PLAN
    assert "](../../tests/reference/replay.py)" in steps[5]


@pytest.mark.parametrize("path", DOCS, ids=name_of)
def test_make_verbs_that_are_named_exist(path):
    verbs = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (tree.ROOT / "Makefile").read_text(), re.M))
    verbs = {verb for group in verbs for verb in group.split()}
    verbs |= set(re.search(r"^SUITES := ((?:.*\\\n)*.*)", (tree.ROOT / "Makefile").read_text(), re.M).group(1).split())
    named = set(re.findall(r"(?:^|`|\$ )make ([a-z][a-z-]*)", path.read_text(), re.M))
    assert named <= verbs


def test_every_setting_is_explained_in_its_one_place():
    text = (tree.ROOT / "ascpipe/defaults.toml").read_text()
    for setting in tomli.loads(text):
        assert re.search(r"^# .+\n(?:# .+\n)*{} = ".format(setting), text, re.M), "{} has no sentence".format(setting)


def test_tests_that_the_failure_model_names_exist():
    text = (tree.ROOT / "docs/internals/failure_model.md").read_text()
    named = re.findall(r"`(test_\w+)`", text)
    defined = "\n".join(path.read_text() for path in tree.python_files("tests"))
    missing = [test for test in named if not re.search(r"def {}\b".format(test), defined)]
    assert named and not missing, missing


def functions_in(path):
    return {node.name for node in tree.nodes(path) if isinstance(node, ast.FunctionDef)}


def test_every_feature_names_tests_that_exist_where_it_says():
    rows = re.findall(r"^- (.+)\n(?:  .*\n)*?  - (`tests(?:.+\n)(?:    .+\n)*)",
                      (tree.ROOT / "docs/reference/features.md").read_text(), re.M)
    wrong = []
    for feature, shown in rows:
        file, named = None, 0
        for word in re.findall(r"`(\S+)`", shown):
            if word.endswith(".py"):
                file = tree.ROOT / word
            elif file is None or not file.exists() or word not in functions_in(file):
                wrong.append("{}: {}".format(feature, word))
            named += not word.endswith(".py")
        if not named:
            wrong.append("{}: no test".format(feature))
    assert len(rows) > 40
    assert not wrong, "\n".join(wrong)
