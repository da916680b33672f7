"""Workers are killed hundreds of times, at every store of the protocol and at any instant: nothing can be told from it.

The workers are forked processes with the real stages, rows and optimizer slots are real numbers, and tables of every
kind swap, grow, admit, evict, are reset, loaded and copied at the same time.  All that contract C1 names is compared.
"""
import functools
import time

import numpy as np
import pytest

from ascpipe.layout.words import DONE, RETIRED, TOUCHED, TRAINED
from ascpipe.tables.table import Table
from ascpipe.workers.train_stage import TrainStage
from tests.support import shared_steps, stepwise
from tests.support.forked_sim import USUAL, ForkedSim, Plan, Settings
from tests.support.pause_points import POINTS, Board

MOST_STEPS = 3000
LEAST_HITS = 3  #: of each point, with or without a kill there

pytestmark = pytest.mark.timeout_s(120)


@functools.lru_cache(maxsize=None)
def undisturbed(seed, steps):
    with ForkedSim(seed) as sim:
        return sim.finish(sim.run(range(steps)))


def killed(seed, plan, settings=USUAL, **arguments):
    """(report, kills by place, times that each point was reached) of a run that goes on until all kills are done."""
    with ForkedSim(seed, plan, settings, chance=seed, **arguments) as sim:
        moments = sim.run(range(20))
        while sim.kills_left or sim.board.hits.min() < LEAST_HITS:
            assert len(moments) < MOST_STEPS, "not reached: {}".format(
                [point for point, wanted, hits in zip(POINTS, sim.board.wanted, sim.board.hits)
                 if wanted or hits < LEAST_HITS])
            moments += sim.run(range(len(moments), len(moments) + 5))
        moments += sim.run(range(len(moments), len(moments) + 10))
        hits = dict(zip(POINTS, sim.board.hits.tolist()))
        return sim.finish(moments), sim.kills, hits


def assert_kills_leave_no_trace(seed, plan, settings=USUAL, **arguments):
    report, kills, hits = killed(seed, plan, settings, **arguments)
    assert {point: kills.get(point) for point in POINTS} == dict.fromkeys(POINTS, plan.at_points)
    assert sum(kills.values()) == plan.at_points * len(POINTS) + plan.at_random
    assert min(hits.values()) >= LEAST_HITS, hits
    assert report == undisturbed(seed, len(report.moments))


def test_a_kill_at_every_store_and_some_at_any_instant_leave_no_trace():
    assert_kills_leave_no_trace(1, Plan(at_points=1, at_random=20))


@pytest.mark.long
@pytest.mark.timeout_s(600)
@pytest.mark.parametrize("settings", [
    USUAL, Settings(frames=4, look_ahead=0, plan_ahead=1), Settings(frames=24, look_ahead=8),
    Settings(key_workers=2, table_workers=2)], ids=["usual", "short", "deep", "many"])
@pytest.mark.parametrize("seed", [2, 3])
def test_kills_at_every_store_and_two_hundred_and_fifty_at_any_instant_leave_no_trace(seed, settings):
    assert_kills_leave_no_trace(seed, Plan(at_points=5, at_random=250), settings)


# ---- the killer

@pytest.mark.long
def test_every_kill_is_counted_once_however_long_a_worker_is_on_its_way_to_a_stop():
    def slow(sim):
        must_stop = Board.must_stop

        def slowly(*arguments):
            stops = must_stop(*arguments)
            until = time.perf_counter() + 0.003 * stops
            while time.perf_counter() < until:
                pass
            return stops

        Board.must_stop = slowly

    assert_kills_leave_no_trace(1, Plan(at_points=1, at_random=20), flaw=slow)


def test_a_worker_is_counted_at_its_point_if_it_stands_there_when_it_is_killed_at_random():
    board = Board(np.zeros(Board.BYTES, np.uint8))
    board.wanted[3] = 1
    board.arm(spare=0)
    assert board.must_stop(3, 1)
    board.stopped[0] = 1 + 3
    assert (board.was_killed(2), board.wanted[3], board.stands()) == ("", 1, 1)
    assert (board.was_killed(1), board.wanted[3], board.stands()) == (POINTS[3], 0, None)


def test_a_worker_that_is_killed_on_its_way_to_a_stop_leaves_the_stop_to_another_one():
    board = Board(np.zeros(Board.BYTES, np.uint8))
    board.wanted[3] = board.wanted[4] = 1
    board.arm(spare=0)
    assert board.must_stop(3, 1)
    board.arm(spare=0)
    assert not board.must_stop(4, 2) and not board.disarm()
    assert (board.was_killed(1), board.wanted[3]) == ("", 1)
    board.arm(spare=0)
    assert board.must_stop(4, 2)


# ---- workers with a flaw that only a kill can show

def counts_by_increment(sim):
    """A record says how much counts grow, not what they are: assigned twice, it counts twice."""
    assign_again, assign = Table.assign, stepwise.TABLE.assign

    def increase(part, header, entries):
        record = part.record(part["held"], 0, 0)
        known, occurrences = entries[record.held], part.array("occurrences", part["held"])
        admission = header["access_threshold"] >= 0
        counts = part["full"] or admission or known["state"] == TRAINED
        grows = occurrences * int(header["faae_coefficient"]) * (not admission or header["counting"]) * counts
        record.counts[:] = known["count"] + grows

    def again(table, done, ticket):
        increase(sim.ring.part(done.number, table._column), table._header, table._truth.entries)
        assign_again(table, done, ticket)

    def assign_frames(memory, turns, *rest):
        for turn, part in shared_steps.due_parts(memory, turns):
            view = sim.tables[int(turn["column"])]
            increase(part, view.header, view.entries)
        return assign(memory, turns, *rest)

    Table.assign, stepwise.TABLE.assign = again, assign_frames


def before_restart(change):
    def flaw(sim):
        restart = TrainStage._restart

        def flawed(stage):
            change(stage)
            restart(stage)

        TrainStage._restart = flawed

    flaw.__name__ = change.__name__
    return flaw


def set_done(stage, word):
    seen = stage._ring.look(stage._column)
    for number, found in enumerate(seen.words.tolist(), seen.head):
        if found == DONE:
            stage._ring.store_word(number, stage._column, word)


@before_restart
def forgets_what_is_done(stage):
    """The record of a DONE frame is not assigned again."""
    set_done(stage, RETIRED)


@before_restart
def plans_again_what_is_done(stage):
    set_done(stage, TOUCHED)


@before_restart
def forgets_a_committed_cut(stage):
    header = stage._view.header
    header["cut_applied"] = header["cut_committed"]


@before_restart
def empties_again_what_is_granted(stage):
    header = stage._view.header
    header["cut_granted"] = min(header["cut_granted"], header["cut_applied"])


@pytest.mark.parametrize("flaw", [
    counts_by_increment, forgets_what_is_done, plans_again_what_is_done, forgets_a_committed_cut,
    empties_again_what_is_granted],
    ids=lambda flaw: flaw.__name__)
def test_a_worker_whose_flaw_only_a_kill_can_show_is_seen(flaw):
    expected = undisturbed(1, 30)
    with ForkedSim(1, flaw=flaw) as sim:
        assert sim.finish(sim.run(range(30))) == expected
    with pytest.raises(AssertionError):
        killed(1, Plan(at_points=1), flaw=flaw)
