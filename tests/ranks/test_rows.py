"""Rows that rank 0 reads, sets and deletes between two steps, on all ranks."""
import numpy as np
import pytest

from ascpipe.checkpoint.retention import complete_checkpoints
from tests.ranks.test_exactness import ON_DISK, SMALL, THREE
from tests.ranks.test_saves import goes_on, require_close, require_same, saved
from tests.support import ranked_runs
from tests.support.several_ranks import needs_horovod

pytestmark = [needs_horovod, pytest.mark.timeout_s(280)]

CASE = {"tables": {**SMALL, "user": {**SMALL["user"], "threshold": 2}}, "features": THREE, "optimizer": "adagrad",
        "steps": 30, "edit_each": 6, "saves": [4, 7, 10], "save": {"save_delta": True}, "rank_0_saves": True}
TIERS = {"host": {}, "device": {"tables": {"user": {"threshold": 2}, "item": {"dim": 4}}},
         "disk": {"tables": ON_DISK}, "expansion": {"expansion": True, "optimizer": "lazy_adam"}}


@pytest.mark.parametrize("ranks, tier", [(2, "host"), *(pytest.param(ranks, tier, marks=pytest.mark.long)
                                                       for ranks, tier in ((3, "host"), (2, "device"), (2, "disk"),
                                                                           (3, "disk"), (2, "expansion")))])
def test_rows_of_all_ranks_are_read_set_and_deleted_as_with_one_rank(launcher, tmp_path, ranks, tier):
    case = {**CASE, **TIERS[tier]}
    one, several = (ranked_runs.train(tmp_path / str(count), count, case, launcher=launcher).require_good_end()
                    for count in (1, ranks))
    require_close(several, one, 0)
    deltas = [one.is_delta for one in complete_checkpoints(str(tmp_path / str(ranks) / "saved"))]
    assert deltas == [False, False, True]  # a change of rows begins a new chain
    want, got = one.told[0]["edits"], several.told[0]["edits"]
    assert len(got) == len(want) == 2 * 3 * 5
    for seen, expected in zip(got, want):
        if isinstance(expected, int):
            assert seen == expected
            continue
        assert seen[:3] == expected[:3]
        for rows, others in zip([seen[3], *seen[4]], [expected[3], *expected[4]]):
            np.testing.assert_allclose(rows, others, rtol=1e-5, atol=1e-6)
    assert sum(deleted for deleted in want[1::3]) > 20
    assert sum(sum(seen[1]) for seen in want[2::3]) > 100


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 4))
def test_rows_are_the_same_if_workers_are_killed_meanwhile(launcher, tmp_path, seed):
    case = {**CASE, "steps": 60, "edit_each": 3}
    want, got = (ranked_runs.train(tmp_path / str(kills), 2, {**case, "kills": kills}, launcher=launcher)
                 .require_good_end() for kills in (0, seed))
    assert sum(told["killed"] for told in got.told) > 4
    require_close(got, want, 0)
    assert got.told[0]["edits"] == want.told[0]["edits"]
    require_same(goes_on(tmp_path / "again", 2, {**case, "kills": 0}, saved(tmp_path / "0", 7), launcher), want, 7)
