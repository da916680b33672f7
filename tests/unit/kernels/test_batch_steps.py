"""The steps of one table, in any order that a worker may take them, beside their twins."""
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import rescoring
from ascpipe.kernels.asks import LACKS_NOTHING
from ascpipe.layout.words import PLAN_NO_MEMORY, PLAN_OK, PLAN_TABLE_FULL
from tests.support.covering import example_count, some
from tests.support.twin_steps import Steps
from tests.support.twin_table import provide

DEVICE, HOMES, BOTH = (5, 0), (0, 9), (4, 9)  # device rows, home rows
KEYS = st.lists(st.integers(0, 13), unique=True, max_size=6)
#: what to do, and with which keys; weights by repetition
STEPS = st.lists(st.tuples(
    st.sampled_from(["touch"] * 4 + ["plan"] * 3 + ["assign"] * 2 + ["take_back", "skip", "count_only", "restart",
                                                                      "rebuild", "threshold", "again"]),
    KEYS, st.integers(0, 3)), max_size=30)


@settings(deadline=None, max_examples=example_count(50, 500))
@pytest.mark.parametrize("kind", [DEVICE, HOMES, BOTH], ids=["device", "homes", "both"])
@given(st.sampled_from([-1, -1, 1, 3]), st.sampled_from([math.inf, math.inf, 5]), st.sampled_from([14, 9]), STEPS)
def test_a_table_takes_the_steps_of_its_twin(kind, threshold, home_memory, capacity, steps):
    worker = Steps(kind, threshold, home_memory, capacity)
    for step in steps:
        worker.take(*step)


def busy(kind, seed, **options):
    """A long run in which most frames are planned and assigned."""
    random, worker = np.random.RandomState(seed), Steps(kind, **options)
    names = ["touch"] * 6 + ["plan"] * 6 + ["assign"] * 4 + ["take_back", "take_back", "threshold", "again"]
    for _ in range(120):
        keys = random.permutation(14)[:random.randint(0, 5)].tolist()
        worker.take(names[random.randint(len(names))], keys, int(random.randint(4)))
    return worker


@pytest.mark.parametrize("seed", some(range(6), 0, 1))
def test_a_long_run_of_a_table_with_victims(seed):
    worker = busy(BOTH, seed, threshold=[-1, 2][seed % 2])
    assert worker.pair.twin.victims_filled
    assert worker.statuses.count(PLAN_OK) > 15


@pytest.mark.parametrize("since, is_made_anew", [(rescoring.MOST_USES, False), (rescoring.MOST_USES + 1, True)])
def test_after_very_many_frames_the_victim_order_is_made_anew(since, is_made_anew):
    worker = Steps(BOTH, -1)
    for step, keys in (("touch", [0, 1, 2, 3]), ("plan", []), ("touch", [4, 5]), ("plan", []), ("touch", [0])):
        worker.take(step, keys, 0)
    planner = worker.pair.planner
    before = planner["first_use"] = planner["newest"] - since
    frame = worker.frames_in(planned=False)[0]
    assert provide(worker.pair, lambda: worker._draft(frame, []), 1) == LACKS_NOTHING
    worker._complete(frame, 0, 1)
    assert (planner["first_use"] != before) == is_made_anew
    if is_made_anew:
        worker.pair.compare()


def test_rows_of_a_batch_stay_although_an_older_one_that_is_to_be_skipped_needs_all_others():
    worker = Steps(BOTH, -1)
    for step, keys in (("touch", [0, 1, 2, 3]), ("plan", []), ("touch", [0, 1, 3]), ("touch", [2, 4])):
        worker.take(step, keys, 0)
    _, skipped, planned = worker.frames
    worker.plan_one(planned)
    worker.pair.compare()
    assert planned.pending.record.out_entries.tolist() == [0]
    worker._leave(skipped)
    worker.pair.compare()


def test_after_a_restart_a_row_that_comes_from_home_needs_a_victim():
    worker = Steps(BOTH, -1)
    for step, keys in (("touch", [0, 1, 2, 3]), ("plan", []), ("assign", []), ("touch", [4]), ("plan", []),
                       ("assign", []), ("restart", []), ("touch", [0]), ("plan", []), ("assign", [])):
        worker.take(step, keys, 0)
    assert worker.statuses == [PLAN_OK] * 3
    assert 0 in worker.pair.twin.slot_entries


@pytest.mark.parametrize("seed", range(2))
def test_a_long_run_of_a_table_that_fills(seed):
    assert PLAN_TABLE_FULL in busy(DEVICE, seed, threshold=-1).statuses
    assert PLAN_NO_MEMORY in busy(HOMES, seed, threshold=-1, home_memory=5).statuses
