"""A table worker is killed, or the trainer acts, between any two stores of an action.

The stages of the workers are the real ones; what happens at each look and at each store is decided by a
seed.  The orders are those of the protocol model (``tests/model``).
"""
import numpy as np
import pytest

from ascpipe.kernels.records import TURN
from ascpipe.kernels.ring_scan import look
from ascpipe.layout import structs
from ascpipe.layout.words import CLAIMED, PLANNED, RETIRED, TOUCHED
from tests.support.any_schedule import AnySchedule
from tests.support.covering import some
from tests.support.pipeline_sim import Sim
from tests.support.store_pauses import Killed, Pauses


@pytest.fixture
def pauses(monkeypatch):
    return Pauses(monkeypatch)


def kill_at(name):
    def at(here):
        if here == name:
            raise Killed

    return at


@pytest.mark.parametrize("name", ["half-way of retire", "after retire"])
def test_a_worker_killed_while_it_retires_is_followed_by_one_that_retires_again(pauses, name):
    sim = Sim([8])
    batch = sim.submit([1, 2, 3, 4])
    sim.work()
    assert sim.claim(batch, 0)
    sim.close(batch)
    pauses.at = kill_at(name)
    with pytest.raises(Killed):
        sim.stages[0].step()
    pauses.at = lambda here: None
    sim.kill(0)
    sim.work()
    assert sim.word(batch.number, 0) == RETIRED
    sim.check(0)


def test_a_plan_stands_upon_what_it_was_made_from_although_a_ticket_is_closed_meanwhile(pauses):
    """The first batch is closed, untrained, while the second is being planned upon it."""
    sim = Sim([8])
    first, second = sim.submit([1, 2]), sim.submit([2, 3])
    stage = sim.stages[0]
    sim.keys.step(), sim.keys.step()
    while sim.word(first.number, 0) != PLANNED:
        stage.act()
    while sim.word(second.number, 0) != TOUCHED:
        stage.act()

    def at(here):
        if here == "after look" and first in sim.open:
            sim.close(first)  # after the worker has decided to plan the second upon it

    pauses.at = at
    while sim.word(second.number, 0) != PLANNED:
        assert stage.act()
    pauses.at = lambda here: None
    sim.claim(second, 0)  # must not go through with a plan that counts the first batch
    sim.work()
    if sim.word(second.number, 0) < CLAIMED:
        assert sim.claim(second, 0)
    sim.close(second)
    sim.work()
    sim.check(0)
    assert sorted(sim.trained_state(0)) == [2, 3]


def test_a_cut_is_not_applied_before_the_step_before_it_is_counted(pauses):
    """The step ends and the cut is asked for between the worker's look at the frames and at the request."""
    sim = Sim([8, 8])
    sim.train([1], [1])
    batch = sim.submit([1], [1])
    while sim.keys.step() or sim.stages[0].step():
        pass
    assert sim.claim(batch, 0)
    header = sim.tables[1].header
    stage, looked = sim.stages[1], []
    while sim.word(batch.number, 1) != TOUCHED:
        stage.act()

    def at(here):
        if here == "after look" and not looked:
            looked.append(here)
            sim.close(batch)
            sim.ask_reset(1)

    pauses.at = at
    while not looked or header["cut_applied"] < header["cut_asked"]:
        assert stage.act()
    assert sim.word(batch.number, 1) == RETIRED


def test_a_look_during_which_the_ring_moves_on_writes_no_more_states_than_there_are_places():
    """The pump gives frames back and fills new ones between the loads of head and tail."""
    sim = Sim([8], frames=structs.MAX_FRAMES)
    sim.ring.header["tail"] = structs.MAX_FRAMES + 3  # as seen with a head from before
    turns = np.full(3 * TURN.itemsize, 0xF9, np.uint8).view(TURN)
    before = turns.copy()
    look(sim.ring.memory, 0, turns[1])
    assert turns["count"][1] == structs.MAX_FRAMES
    assert turns[[0, 2]].tobytes() == before[[0, 2]].tobytes()
    assert turns["planner_at"][1] == before["planner_at"][1]


@pytest.mark.parametrize("seed", some(range(60), *range(24)))
def test_any_kill_and_any_trainer_between_two_stores_ends_in_the_oracles_state(pauses, seed):
    AnySchedule(pauses, seed).run()


@pytest.mark.parametrize("seed", some(range(300), *range(8, 14)))  # the next test has the first ones
def test_any_kill_of_workers_leaves_rows_on_disk_as_the_oracle_has_them(pauses, seed):
    AnySchedule(pauses, seed, disk=True).run()


def test_rows_go_to_disk_and_come_back_in_these_schedules(pauses):
    runs = [AnySchedule(pauses, seed, disk=True) for seed in range(8)]
    for run in runs:
        run.run()
    disks = [disk for run in runs for disk in run.sim.disks.values()]
    assert sum(disk.reads for disk in disks) > 30 and sum(disk.writes for disk in disks) > 30
    assert sum(run.kills for run in runs) > 20
