"""Random schedules of saves, restores, evictions, thresholds and changes of rows end as on one rank."""
import json

import pytest

from tests.support import ranked_runs
from tests.support.several_ranks import needs_horovod

pytestmark = needs_horovod


def ran(folder, ranks, seed, count, ends_within_s):
    """What ranks told of each schedule, by rank."""
    folder.mkdir()
    code, said = ranked_runs.run_script("rank_schedules.py", folder, ranks, seed, count, ends_within_s=ends_within_s,
                                        wait_timeout_s=30)
    assert code == 0, said
    return [[json.loads(line) for line in (folder / "{}.jsonl".format(rank)).read_text().splitlines()]
            for rank in range(ranks)]


def require_same_bits(tmp_path, ranks, seed, count, ends_within_s):
    """Rows that ranks evaluate side by side, and checkpoints, are those of one rank that does one after the other."""
    (one,) = ran(tmp_path / "one", 1, seed, count, ends_within_s)
    several = ran(tmp_path / "several", ranks, seed, count, ends_within_s)
    assert [len(told) for told in several] == [len(one)] * ranks == [count] * ranks
    for number, want in enumerate(one):
        got = [told[number] for told in several]
        assert all(told["actions"] == want["actions"] for told in got)
        assert [told["saved"] for told in got] == [want["saved"]] + [[]] * (ranks - 1), (number, want["actions"])
        assert [told["changes"] for told in got] == [want["changes"]] + [[]] * (ranks - 1), (number, want["actions"])
        assert ["".join(parts) for parts in zip(*(told["rows"] for told in got))] == want["rows"], (
            number, want["actions"])
    return several


@pytest.mark.timeout_s(240)
def test_schedules_of_two_ranks_end_as_on_one(tmp_path):
    several = require_same_bits(tmp_path, 2, 1, 10, 100.0)
    assert sum(len(told["saved"]) for told in several[0]) > 5


@pytest.mark.long
@pytest.mark.timeout_s(3600)
@pytest.mark.parametrize("ranks, seed", [(2, seed) for seed in range(2, 8)] + [(3, seed) for seed in range(8, 12)])
def test_many_schedules_of_several_ranks_end_as_on_one(tmp_path, ranks, seed):
    require_same_bits(tmp_path, ranks, seed, 200, 1700.0)
