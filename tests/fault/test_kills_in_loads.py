"""A table worker is killed between any two stores of a load, its own or the trainer's: the load is done once."""
import pytest

from ascpipe.layout.words import RETIRED
from tests.support.pipeline_sim import Sim
from tests.support.sim_load import Checkpoint, Saved
from tests.support.sim_ring import Home
from tests.support.store_pauses import Killed, Pauses

TABLES = {"device": (9, Home(0)), "host": (3, Home(9)), "expansion": (0, Home(9)), "admission": (3, Home(9, 2))}
PLAIN = Checkpoint({2: Saved(4, 5, 3), 3: Saved(1, 6, 0), 7: Saved(2, 2, 8), 8: Saved(3, 3, 1)}, 6)
ADMITTING = Checkpoint({2: Saved(4, 5, 3), 3: Saved(1, 6, None), 7: Saved(2, 2, 8)}, 6, 3, True)


def before_the_load(kind, pauses, fails_after):
    """A table that was trained and has touched and planned batches ahead, which may be claimed after the load."""
    rows, home = TABLES[kind]
    sim = Sim([rows], homes=[home])
    pauses.watch_header(sim, 0)
    sim.train([1, 2], timestamp=1)
    sim.train([1, 3, 2], timestamp=3)
    ahead = [sim.submit(keys) for keys in ([1, 3], [4, 2], [7])]
    sim.work()
    load = sim.ask_load(0, ADMITTING if kind == "admission" else PLAIN, fails_after)
    return sim, ahead, load


def after_the_load(sim, ahead):
    """What an evaluation finds, and what the batches ahead make of it."""
    sim.work()
    assert sim.cut_is_applied(0)
    sim.check_answers(0, sim.evaluate(range(9))[0])
    for batch in ahead:
        sim.work()
        assert sim.claim(batch, 0)
        sim.close(batch)
    sim.work()
    sim.check(0)
    assert all(sim.word(batch.number, 0) == RETIRED for batch in ahead)


class Counted:
    """Kills at the n-th place after a store, and counts them."""

    def __init__(self, kill_at):
        self.kill_at, self.seen = kill_at, []

    def __call__(self, name):
        if name.startswith("before") or name in ("after look", "after load_acquire_i64"):
            return
        self.seen.append(name)
        if len(self.seen) - 1 == self.kill_at:
            raise Killed


@pytest.mark.parametrize("fails_after", [None, 3])
@pytest.mark.parametrize("kind", sorted(TABLES))
def test_a_worker_killed_between_any_two_of_its_stores_is_followed_by_one_that_goes_on(kind, fails_after, monkeypatch):
    pauses = Pauses(monkeypatch)
    names, kills, place = set(), 0, 0
    while place == kills:
        sim, ahead, load = before_the_load(kind, pauses, fails_after)
        counted = Counted(place)
        while not load.is_over:
            pauses.at = counted
            try:
                sim.stages[0].step()
            except Killed:
                kills += 1
                pauses.at = lambda name: None
                sim.kill(0)
            finally:
                pauses.at = lambda name: None
            load.advance()
        names.update(counted.seen)
        after_the_load(sim, ahead)
        place += 1
    assert kills > 15
    assert names >= {"after " + store for store in (
        "cut_status", "cut_committed", "empty", "touches", "load_entries", "store", "entries_used", "rows")}


@pytest.mark.parametrize("fails_after", [None, 5])
@pytest.mark.parametrize("kind", sorted(TABLES))
def test_a_worker_killed_between_any_two_stores_of_the_trainer_leaves_them_alone(kind, fails_after, monkeypatch):
    pauses, stores, is_filled = Pauses(monkeypatch), 0, False
    while not is_filled:
        sim, ahead, load = before_the_load(kind, pauses, fails_after)
        sim.stages[0].step()
        for _ in range(stores):
            load.advance()
        header = sim.tables[0].header
        is_filled = header["cut_filled"] == header["cut_asked"]
        sim.kill(0)
        while sim.stages[0].step() or load.advance():
            pass
        after_the_load(sim, ahead)
        stores += 1
    assert stores > (12 if fails_after is None else fails_after)
