"""``ascpipe explain``."""
import json

import pytest
from click.testing import CliRunner

from ascpipe.cli import explain, main
from ascpipe.errors.explanations import EXPLANATIONS


def told(*arguments):
    return CliRunner().invoke(main.main, ["explain", *arguments])


@pytest.mark.parametrize("code", ["E122", "e122", "122", "E122:"])
def test_a_code_has_what_happened_the_data_and_the_cure(code):
    done = told(code)
    assert done.exit_code == 0
    first, *others = done.output.splitlines()
    assert first == "E122"
    assert [line.split()[0] for line in others if line[2] != " "] == ["what", "data", "cure"]
    assert " ".join(EXPLANATIONS["E122"].cure.split()) in " ".join(done.output.split())


def test_a_code_that_there_is_not_is_wrong_usage_and_names_the_nearest():
    done = told("E129")
    assert (done.exit_code, "there is no code 'E129'" in done.output, "E12" in done.output) == (2, True, True)
    assert "Did you mean E120, E122, E123?" in " ".join(told("E121").output.split())
    assert "Did you mean E199, " in told("E999").output
    assert "mean" not in told("nonsense").output and "lists all codes" in told("nonsense").output


def test_without_a_code_all_are_listed():
    listed = told().output
    assert all("\n" + code in "\n" + listed for code in EXPLANATIONS)


def test_json_has_the_same_texts():
    assert json.loads(told("E401", "--json").output) == {"E401": dict(EXPLANATIONS["E401"]._asdict())}
    assert set(json.loads(told("--json").output)) == set(EXPLANATIONS)


def test_the_page_has_every_code_and_no_line_that_is_too_wide():
    page = explain.page()
    assert all("- **{}**: ".format(code) in page for code in EXPLANATIONS)
    assert max(map(len, page.splitlines())) <= 120


def test_the_page_links_the_documents_that_explanations_name():
    assert "](../how-to/saving.md)" in explain.page()
    assert "docs/how-to" not in explain.page()
