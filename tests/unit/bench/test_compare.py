"""Two files of results: which ratios, which exit code."""
import json

import pytest

from bench import compare


def run(median_s, *, units=10, ratios=None, name="case/one"):
    baselines = {baseline: {"ratio": ratio} for baseline, ratio in (ratios or {}).items()}
    return {"results": [{"name": name, "units": units, "timing": {"median_s": median_s}, "baselines": baselines}]}


@pytest.fixture
def written(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


def test_the_ratio_is_per_unit_of_work():
    change, = compare.changes(run(1.0, units=10), run(3.0, units=20))
    assert change.ours == pytest.approx(1.5)


def test_a_machine_that_is_slower_as_a_whole_is_no_change_against_the_baseline():
    change, = compare.changes(run(1.0, ratios={"tf": 4.0}), run(2.0, ratios={"tf": 4.0}))
    assert (change.ours, change.against, change.worst) == (2.0, {"tf": 1.0}, 1.0)


@pytest.mark.parametrize("after, code", [
    (run(1.0, ratios={"tf": 4.0}), 0),
    (run(1.0, ratios={"tf": 2.0}), 1),
    (run(1.5), 1),  # no common baseline: the times themselves
    (run(1.05), 0),
])
def test_the_exit_code_says_whether_a_variant_is_past_the_limit(written, capsys, after, code):
    before, later = written("before", run(1.0, ratios={"tf": 4.0})), written("after", after)
    assert compare.main([before, later, "--limit", "1.1"]) == code
    assert ("SLOWER" in capsys.readouterr().out) == bool(code)


@pytest.mark.parametrize("content", ["no json", "[]", "{}", '{"results": [{"name": "case/one"}]}'])
def test_a_file_that_is_no_result_ends_with_code_2_and_its_reason(written, capsys, content):
    assert compare.main([written("before", run(1.0)), written("after", content)]) == 2
    assert capsys.readouterr().err.startswith("bench.compare: ")


def test_a_missing_file_ends_with_code_2(written, capsys):
    assert compare.main([written("before", run(1.0)), "missing.json"]) == 2
    assert "missing.json" in capsys.readouterr().err


def test_files_without_a_common_variant_end_with_code_2(written, capsys):
    assert compare.main([written("before", run(1.0)), written("after", run(1.0, name="other/one"))]) == 2
