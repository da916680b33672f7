"""Records of two runs: which ratios, which exit code."""
import json

import pytest

from bench import __main__ as command
from bench import compare, records


def run(ours, *, ratios=None, name="dedup/uniform", small=False):
    case, variant = name.split("/")
    filled = dict.fromkeys(records.FIELDS)
    params = {"variant": variant, "small": small, "contender": "ours"}
    return [dict(filled, case=case, params=params, unit="s per id", ours=ours, ratio=ratios or {}, goal=[], notes={},
                 peers={peer: ours * ratio for peer, ratio in (ratios or {}).items()}, spread={"ours": [ours, ours]})]


@pytest.fixture
def written(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps({"records": content}))
        return str(path)

    return write


def test_the_ratio_is_per_unit_of_work():
    change, = compare.changes(run(1.0), run(1.5))
    assert change.ours == pytest.approx(1.5)


def test_a_machine_that_is_slower_as_a_whole_is_no_change_against_a_peer():
    change, = compare.changes(run(1.0, ratios={"tf": 4.0}), run(2.0, ratios={"tf": 4.0}))
    assert (change.ours, change.against, change.slowdown) == (2.0, {"tf": 1.0}, 1.0)


def test_one_peer_that_was_slow_itself_hides_no_slowdown():
    before, after = {"tf": 4.0, "numpy": 4.0, "cpp": 4.0}, {"tf": 2.0, "numpy": 2.0, "cpp": 4.4}
    change, = compare.changes(run(1.0, ratios=before), run(2.0, ratios=after))
    assert min(change.against.values()) < 1 < change.slowdown == 2.0


def test_small_sizes_are_not_compared_with_full_ones():
    assert compare.changes(run(1.0), run(1.0, small=True)) == []


@pytest.mark.parametrize("after, code", [
    (run(1.0, ratios={"tf": 4.0}), 0),
    (run(1.0, ratios={"tf": 2.0}), 1),
    (run(1.5), 1),  # no common peer: the times themselves
    (run(1.05), 0),
])
def test_the_exit_code_says_whether_a_variant_is_past_the_limit(written, capsys, after, code):
    before, later = written("before", run(1.0, ratios={"tf": 4.0})), written("after", after)
    assert command.main(["--compare", before, "--results", later, "--limit", "1.1"]) == code
    assert ("SLOWER" in capsys.readouterr().out) == bool(code)


@pytest.mark.parametrize("content", ["no json", "[]", "{}", '{"records": [{"case": "dedup"}]}'])
def test_a_file_that_is_no_result_is_a_usage_error_with_its_reason(written, capsys, content):
    with pytest.raises(SystemExit) as stopped:
        command.main(["--compare", written("before", run(1.0)), "--results", written("after", content)])
    assert stopped.value.code == 2
    assert "after" in capsys.readouterr().err


def test_a_missing_file_is_a_usage_error(written, capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(["--compare", "missing.json", "--results", written("after", run(1.0))])
    assert stopped.value.code == 2
    assert "missing.json" in capsys.readouterr().err


def test_files_without_a_common_variant_end_with_code_2(written, capsys):
    before, after = written("before", run(1.0)), written("after", run(1.0, name="other/one"))
    assert command.main(["--compare", before, "--results", after]) == 2
    assert "no variant is in both" in capsys.readouterr().err
