"""Killed workers of tables that swap, admit and evict: everything is bit by bit that of an undisturbed run."""
import sys

import numpy as np
import pytest

from tests.support.programs import running

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]


def assert_as_undisturbed(*scenarios, **settings):
    """What the scenarios told."""
    undisturbed, *others = running.run("tiers", "trained", *scenarios, **settings)
    assert undisturbed["loads"] > 100  # or the device was large enough
    assert undisturbed["evicted"] > 10
    for other in others:
        assert other["kills"] > 0
        assert {name: other[name] for name in ("losses", "state", "keys")} == {
            name: undisturbed[name] for name in ("losses", "state", "keys")}
    return others


def test_kills_leave_no_trace_in_losses_rows_optimizer_slots_counts_and_timestamps():
    assert_as_undisturbed("trained:table+key,4,1")


def assert_as_in_memory(*scenarios, **settings):
    """As above, of tables whose rows go to disk."""
    others = assert_as_undisturbed(*scenarios, **settings)
    for told in others:
        assert told["fetches"] > 100 and told["spills"] > 100
    return others


def test_kills_leave_no_trace_where_rows_go_to_disk(tmp_path):
    assert_as_in_memory("trained:table+disk+key,6,1,{}".format(tmp_path))


def test_a_disk_worker_that_is_stopped_is_replaced_without_a_trace(tmp_path):
    assert_as_in_memory("stopped:disk,3,1,{}".format(tmp_path), worker_patience_s=2)


@pytest.mark.long
@pytest.mark.timeout_s(1200)
def test_twenty_disk_workers_that_are_stopped_are_replaced_with_the_settings_that_users_have(tmp_path):
    assert_as_in_memory("stopped:disk,20,1,{}".format(tmp_path), ends_within_s=1100.0)


@pytest.mark.long
@pytest.mark.parametrize("frames", [2, 64])
@pytest.mark.parametrize("first", range(2, 37, 5))
def test_a_thousand_kills_leave_no_trace_where_rows_go_to_disk(tmp_path, first, frames):
    # 15: each of three workers is replaced five times a minute, not more often
    told = assert_as_in_memory(*("trained:table+disk+key,15,{},{}".format(seed, tmp_path)
                                 for seed in range(first, first + 5)), ring_frames=frames)
    recovered_s = sum((each["recovered_s"] for each in told), [])
    sys.stdout.write("{} kills: three further steps after {:.0f} ms (median), {:.0f} ms (p95), {:.0f} ms at most"
                     "\n".format(len(recovered_s), *1000 * np.percentile(recovered_s, [50, 95, 100])))


@pytest.mark.long
@pytest.mark.parametrize("frames", [2, 64])
def test_thirty_kills_leave_no_trace(frames):
    assert_as_undisturbed(*("trained:table+key,10,{}".format(seed) for seed in (2, 3, 4)), ring_frames=frames)


@pytest.mark.long
def test_the_ring_decides_nothing():
    results = [running.run("tiers", "trained", ring_frames=frames)[0] for frames in (2, 5, 64)]
    assert len({(result["losses"], result["state"]) for result in results}) == 1
