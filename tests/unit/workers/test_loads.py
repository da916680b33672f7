"""Loads: the trainer fills a table between two steps, and the worker takes over what it wrote."""
import pytest

from ascpipe.layout.words import (
    ANSWERED,
    ASKED,
    DEDUPED,
    PLAN_HOST_FULL,
    PLAN_NO_MEMORY,
    PLAN_OK,
    PLAN_TABLE_FULL,
    PLANNED,
    SLOT_HOME,
    SLOT_NONE,
)
from ascpipe.shm.ring import TableInRing
from ascpipe.workers.cuts import CutStage
from ascpipe.workers.eval_stage import EvalStage
from ascpipe.workers.stage import Bells
from tests.support.pipeline_sim import Sim
from tests.support.replayed_table import ReplayedTable
from tests.support.sim_load import Checkpoint, Saved
from tests.support.sim_ring import Home

SAVED = Checkpoint({5: Saved(4, 7, 3), -9: Saved(1, 8, 0), 1: Saved(2, 2, 6)}, time=9)


def kinds():
    return {"device": Sim([6]), "host": Sim([3], homes=[Home(6)]), "expansion": Sim([0], homes=[Home(6)])}


def of_rows(rows, first=0):
    """A checkpoint of some keys with rows."""
    return Checkpoint({first + key: Saved(1, 0, 2) for key in range(rows)})


def until_granted(sim, index=0):
    """The worker has emptied the table, the trainer has not begun."""
    while sim.stages[index].step():
        pass
    assert sim.tables[index].header["cut_granted"] == sim.tables[index].header["cut_asked"]


def fill(sim, index=0):
    while sim.loads[index].advance():
        pass


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_after_a_load_the_table_is_the_checkpoints(kind):
    sim = kinds()[kind]
    sim.train([1, 2, 3], timestamp=1)
    sim.ask_load(0, SAVED)
    sim.work()
    assert {key: row[:2] for key, row in sim.truth(0).items()} == {5: (4, 7), -9: (1, 8), 1: (2, 2)}
    sim.check(0)
    sim.check_answers(0, sim.evaluate([5, 1, -9, 2, 3])[0])


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_training_goes_on_upon_what_was_loaded(kind):
    sim = kinds()[kind]
    sim.ask_load(0, SAVED)
    sim.work()
    sim.train([2, 5], timestamp=3)
    sim.train([1, 2, -9])
    sim.check(0)
    assert sim.truth(0)[5][:2] == (5, 9)
    assert sim.features[0][5].updates == 4


def test_rows_lie_in_the_order_of_the_entries_at_home_or_on_a_device_alone():
    home, device = Sim([2], homes=[Home(6)]), Sim([6])
    for sim in (home, device):
        sim.ask_load(0, SAVED)
        sim.work()
    assert {key: row[2:] for key, row in home.truth(0).items()} == {5: (-1, 0), 1: (-1, 1), -9: (-1, 2)}
    assert {key: row[2:] for key, row in device.truth(0).items()} == {5: (0, -1), 1: (1, -1), -9: (2, -1)}
    home.train([8])
    device.train([8])
    assert (home.truth(0)[8][3], device.truth(0)[8][2]) == (3, 3)


def test_batches_ahead_are_touched_and_planned_anew():
    sim = Sim([8])
    sim.train([1, 2])
    ahead = sim.submit([2, 5])
    sim.work()
    assert sim.word(ahead.number, 0) == PLANNED
    sim.ask_load(0, SAVED)
    until_granted(sim)
    assert sim.word(ahead.number, 0) == DEDUPED
    fill(sim)
    assert sim.word(ahead.number, 0) == DEDUPED
    sim.work()
    assert sim.claim(ahead, 0)
    sim.close(ahead)
    sim.work()
    assert sim.trained_state(0) == {5: (5, 0), 1: (2, 1), -9: (1, 2), 2: (1, 3)}
    sim.check(0)


def test_a_batch_that_comes_while_the_table_is_filled_waits():
    sim = Sim([8])
    sim.ask_load(0, SAVED)
    until_granted(sim)
    batch = sim.submit([5])
    assert sim.keys.step()
    assert not sim.stages[0].act()
    assert sim.word(batch.number, 0) == DEDUPED
    dropped = sim.submit([1])
    sim.close(dropped)
    assert not sim.stages[0].act()
    sim.work()
    assert sim.claim(batch, 0)


def test_an_evaluation_is_not_answered_while_the_table_is_filled():
    sim = Sim([8])
    sim.train([1])
    sim.ask_load(0, SAVED)
    until_granted(sim)
    question = sim.ask([1, 5])
    assert not sim.eval_stages[0].act()
    assert sim.eval_pump.word(question.number, 0) == ASKED
    sim.work()
    assert sim.eval_pump.word(question.number, 0) == ANSWERED


def test_thresholds_and_counting_come_with_the_checkpoint_and_candidates_have_no_row():
    sim = Sim([2], homes=[Home(6, threshold=2)])
    sim.ask_load(0, Checkpoint({5: Saved(4, 7, 3), 1: Saved(3, 2, None)}, 9, threshold=4, counting=True))
    sim.work()
    header = sim.tables[0].header
    assert [int(header[name]) for name in ("rows", "time", "access_threshold", "counting", "entries_used")] == [
        1, 9, 4, 1, 2]
    assert sim.evaluate([5, 1]) == [{5: SLOT_HOME, 1: SLOT_NONE}]
    sim.train([1, 2])  # the fourth time
    assert sim.truth(0)[1] == (4, 9, 0, 1)
    sim.check(0)


def test_a_checkpoint_without_keys_empties_the_table():
    sim = Sim([8])
    sim.train([1, 2])
    sim.ask_load(0, Checkpoint({}, time=4))
    sim.work()
    assert sim.truth(0) == {}
    sim.train([2])
    sim.check(0)


@pytest.mark.parametrize("fails_after", [0, 1, 4, 7])
def test_a_fill_that_fails_leaves_an_empty_table_with_its_rules(fails_after):
    sim = Sim([2], homes=[Home(6, threshold=1)])
    sim.train([1, 2], timestamp=3)
    sim.ask_load(0, Checkpoint({5: Saved(4, 7, 3), 1: Saved(3, 2, 1)}, 9, threshold=4, counting=False), fails_after)
    sim.work()
    assert sim.truth(0) == {}
    header = sim.tables[0].header
    assert [int(header[name]) for name in ("time", "access_threshold", "counting")] == [0, 1, 1]
    sim.train([5, 3])
    sim.check(0)


def test_an_entry_that_a_failed_fill_wrote_is_free_for_the_worker_after_the_next():
    sim = Sim([8])
    sim.ask_load(0, SAVED, fails_after=6)
    sim.work()
    sim.tables[0].header["entries_used"] = 3  # a touch has raised it, and stored no state yet
    sim.kill(0)
    assert sim.truth(0) == {}
    sim.train([7])
    sim.check(0)


@pytest.mark.parametrize("sim, rows, status", [
    (Sim([3]), 4, PLAN_TABLE_FULL), (Sim([2], homes=[Home(3)]), 4, PLAN_HOST_FULL),
    (Sim([0], homes=[Home(3)]), 4, PLAN_HOST_FULL), (Sim([90], capacity=8), 9, PLAN_TABLE_FULL)])
def test_too_many_keys_are_refused_and_nothing_is_changed(sim, rows, status):
    sim.train([1, 2], timestamp=3)
    load = sim.ask_load(0, of_rows(rows))
    sim.work()
    assert (load.is_over, load.status) == (True, status)
    assert set(sim.truth(0)) == {1, 2}
    sim.train([1])
    sim.check(0)
    load = sim.ask_load(0, of_rows(3, first=7))
    sim.work()
    assert load.status == PLAN_OK
    sim.check(0)


@pytest.mark.parametrize("field", ["ready_entries", "ready_homes"])
def test_a_load_for_which_there_is_no_memory_is_refused_and_nothing_is_changed(field, monkeypatch):
    sim = Sim([2], homes=[Home(9)])
    sim.train([1, 2])
    monkeypatch.setattr(sim.tables[0], field, lambda count: count <= 2)
    load = sim.ask_load(0, SAVED)
    sim.work()
    assert load.status == PLAN_NO_MEMORY
    assert set(sim.truth(0)) == {1, 2}
    sim.check(0)


@pytest.mark.parametrize("entries, rows", [(-1, 0), (2, 3), (2, -1)])
def test_numbers_that_make_no_sense_are_refused(entries, rows):
    sim = Sim([8])
    sim.train([1])
    load = sim.ask_load(0, SAVED)
    sim.tables[0].header["cut_argument"], sim.tables[0].header["cut_rows"] = entries, rows
    sim.work()
    assert load.status == PLAN_TABLE_FULL
    sim.check(0)


def test_the_trainer_is_woken_when_the_table_is_granted_and_when_the_load_is_applied():
    sim, rung = Sim([8]), []
    stage = CutStage(sim.tables[0], ReplayedTable(sim, 0), Bells(lambda: rung.append("trainer"), lambda: None))
    load = sim.ask_load(0, SAVED)
    assert stage.step() == 1
    assert rung == ["trainer"]
    fill(sim)
    assert stage.step() == 1
    assert rung == ["trainer"] * 2
    assert load.advance()
    assert load.is_over


def test_a_table_that_is_in_no_training_stream_is_loaded_and_answers():
    sim = Sim([2], homes=[Home(6)])
    bells, table = Bells(lambda: None, lambda: None), ReplayedTable(sim, 0)
    stage = CutStage(sim.tables[0], table, bells)
    evaluation = EvalStage(table.resolve, TableInRing(sim.eval_pump.ring, 0), stage.is_readable, bells)
    sim.ask_load(0, SAVED)
    stage.step()
    question = sim.ask([5, 2])
    assert evaluation.step() == 0
    fill(sim)
    stage.step()
    assert evaluation.step() == 1
    part = sim.eval_pump.ring.part(question.number, 0)
    assert dict(zip(part.array("unique", 2).tolist(), part.array("slots", 2).tolist())) == {5: SLOT_HOME, 2: SLOT_NONE}


@pytest.mark.parametrize("moment", ["asked", "granted", "half filled", "filled"])
def test_a_worker_without_a_training_stream_that_dies_is_followed_by_one_that_goes_on(moment):
    sim = Sim([2], homes=[Home(6)])

    def start():
        return CutStage(sim.tables[0], ReplayedTable(sim, 0), Bells(lambda: None, lambda: None))

    stage, load = start(), sim.ask_load(0, SAVED)
    if moment != "asked":
        stage.step()
    if moment == "half filled":
        assert load.advance()
        assert load.advance()
    elif moment == "filled":
        fill(sim)
    stage = start()
    while stage.step() or load.advance():
        pass
    sim.check(0)
    assert set(sim.truth(0)) == {5, -9, 1}
