"""A table worker is killed, or the trainer acts, between any two stores of an action.

The stages of the workers are the real ones; what happens at each look and at each store is decided by a
seed.  The orders are those of the protocol model (``tests/model``).
"""
import random

import numpy as np
import pytest

from ascpipe.shm import layout
from ascpipe.shm.ring import read_frames
from ascpipe.words import CLAIMED, PLANNED, RETIRED, TOUCHED
from tests.support.pipeline_sim import Sim
from tests.support.sim_choices import any_tables, ask_any_cut
from tests.support.store_pauses import Killed, Pauses

KEYS = 12


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
    sim = Sim([8], frames=layout.MAX_FRAMES)
    ring, places = sim.ring, layout.MAX_FRAMES
    ring.longs[layout.RING.fields["tail"][1] // 8] = places + 3  # as seen with a head from before
    room = [np.full(places + 8, -7, np.int64) for _ in range(3)]
    words_at = ring.word_index(0, 0)
    read_frames(ring.longs, ring.words, ring.frames_at, words_at, *[cells[:places] for cells in room])
    for cells in room:
        assert cells[places:].tolist() == [-7] * 8


@pytest.mark.parametrize("seed", range(60))
def test_any_kill_and_any_trainer_between_two_stores_ends_in_the_oracles_state(pauses, seed):
    rng = random.Random(seed)
    tables = rng.choice([1, 2])
    sim = Sim(**any_tables(rng, tables, 4, KEYS), capacity=30, frames=rng.choice([1, 2, 3, 6]),
              plan_ahead=rng.choice([1, 2]), look_ahead=rng.choice([0, 1, 32]))
    wanted, fates = {}, rng.choice([0.0, 0.01, 0.03])

    def submit():
        batch = sim.submit(*[[rng.randrange(KEYS) for _ in range(rng.randrange(5))] for _ in range(tables)],
                           timestamp=sim.pump.next_ticket // 2)
        if batch is not None:
            wanted[batch] = set(rng.choice([range(tables), range(1), ()]))

    def is_trained(batch):
        return sim.ring.frames[batch.number % layout.MAX_FRAMES]["trained"]

    def cut():
        """Nobody claims until it is applied."""
        ask_any_cut(sim, rng.randrange(tables), rng, KEYS)

    def trainer():
        if any(load.advance() for load in sim.loads.values()) or not sim.open or not all(
                sim.cut_is_applied(index) for index in range(tables)):
            return
        batch = sim.open[0] if rng.random() < 0.7 else rng.choice(sim.open)
        if wanted[batch] and rng.random() < 0.9:
            index = rng.choice(sorted(wanted[batch]))
            if sim.claim(batch, index):
                wanted[batch].discard(index)
        elif batch is sim.open[0] or not is_trained(batch):
            sim.close(batch)

    inside = [False]

    def at(here):
        if inside[0]:
            return
        if rng.random() < fates:
            raise Killed
        if rng.random() < 0.15:
            inside[0] = True
            rng.choice([trainer] * 9 + [cut])()
            inside[0] = False

    def worker():
        index = rng.randrange(tables)
        pauses.at = at
        try:
            sim.stages[index].act()
        except Killed:
            pauses.at = lambda here: None
            sim.kill(index)
        finally:
            pauses.at = lambda here: None

    for _ in range(400):
        rng.choices([submit, trainer, worker, sim.keys.step, cut], [3, 3, 10, 3, 0.1])[0]()
    for _ in range(1000):
        if not sim.open:
            break
        sim.work()
        batch = sim.open[0]
        if all(sim.claim(batch, index) for index in sorted(wanted[batch]) if sim.word(batch.number, index) <= PLANNED):
            sim.close(batch)
    sim.work()
    sim.pump.free_frames()
    assert sim.ring.header["head"] == sim.ring.header["tail"]
    for index in range(tables):
        sim.check(index)
