"""Planted faults (tests/planted_faults) can still be planted, and results are read as they were written."""
import json

import pytest

from tests.planted_faults import faults, recorded, results, runs

LOADED = faults.load()


def test_every_planted_fault_changes_one_place_and_names_tests_that_exist():
    assert list(faults.problems(LOADED)) == []


def test_there_are_faults_enough_in_each_area():
    counts = {area: sum(fault.area == area for fault in LOADED) for area in faults.AREAS}
    assert sum(counts.values()) >= 64
    for area, least in (("kernels", 14), ("native", 16), ("daemon", 12), ("checkpoint", 10), ("trainer", 12),
                        ("ranks", 4)):
        assert counts[area] >= least, (area, counts)


def test_every_fault_is_caught_by_a_test_of_the_default_suites():
    assert list(recorded.problems(LOADED, results.read(results.RESULTS))) == []


@pytest.mark.parametrize("source, said", [
    ("", "does not exist any more"), ("def test_two(): pass", "does not exist any more"),
    ("@pytest.mark.long\ndef test_one(): pass", "only long tests"),
    ("pytestmark = pytest.mark.long\ndef test_one(): pass", "only long tests"),
    ("pytestmark = [needed, pytest.mark.long]\ndef test_one(): pass", "only long tests"),
    ("@needed\ndef test_one(): pass", None)])
def test_a_test_that_was_removed_or_became_long_catches_nothing(source, said, tmp_path):
    (tmp_path / "test_a.py").write_text(source)
    found = {LOADED[0].name: {"caught": True, "failed": ["test_a.py::test_one[1]"]}}
    problems = list(recorded.problems(LOADED[:1], found, tmp_path))
    assert bool(problems) == (said is not None) and all(said in problem for problem in problems)
    assert "no result" in next(recorded.problems(LOADED[:1], {}))
    assert "is not caught" in next(recorded.problems(LOADED[:1], {LOADED[0].name: {"caught": False}}))


def test_planted_python_still_compiles():
    for fault in LOADED:
        if fault.file.endswith(".py"):
            text = (faults.ROOT / fault.file).read_text(encoding="utf-8")
            compile(faults.planted(fault, text), fault.file, "exec")


@pytest.mark.parametrize("change, said", [
    ({"old": "this text is nowhere"}, "occurs 0 times"), ({"old": "\n"}, "expected once"),
    ({"new": LOADED[0].old}, "are equal"), ({"tests": ("tests/none.py",)}, "do not exist"),
    ({"tests": ()}, "do not exist"), ({"file": "nowhere.py"}, "occurs 0 times")])
def test_a_fault_that_cannot_be_planted_is_named(change, said):
    problem, *_ = faults.problems([LOADED[0]._replace(**change)])
    assert said in problem and LOADED[0].name in problem


def test_two_faults_of_one_name_are_a_problem():
    assert "Two faults" in next(faults.problems([LOADED[0], LOADED[0]]))


def test_tests_that_fail_without_the_fault_do_not_count():
    outcome = runs.Outcome(3, ["tests/tf/test_a.py::test_one", "tests/unit/b/test_b.py::test_two"], [], [], 1.5)
    result = results.result_of(LOADED[0], outcome, ["tests/tf/test_a.py::test_one"], 1)
    assert result["caught"] and result["failures"] == 1 and result["suites"] == ["unit"]
    assert not results.result_of(LOADED[0], outcome, outcome.failed, 1)["caught"]


def test_the_last_result_of_a_fault_counts(tmp_path):
    path = tmp_path / "results.jsonl"
    assert results.read(path) == {}
    for caught in (False, True):
        results.append(path, {"fault": LOADED[0].name, "caught": caught, "failed": ["tests/tf/test_a.py::test_one[1]"],
                              "failures": 1, "suites": ["tf"]})
    found = results.read(path)
    assert json.loads(path.read_text().splitlines()[0])["caught"] is False
    assert found[LOADED[0].name]["caught"] is True
    lines = list(results.page(LOADED[:2], found))
    assert "| {} | 2 | 1 | 1 |".format(LOADED[0].area) in lines
    assert " ".join(lines[-1].split()) == "- {}: not run.".format(LOADED[1].name)
