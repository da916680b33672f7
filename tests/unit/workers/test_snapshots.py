"""Snapshots: entries are copied while the worker assigns records, and what is not copied yet gets an image first."""
import pytest

from ascpipe.layout.words import DONE, PLANNED, RETIRED, TOUCHED
from ascpipe.workers.cuts import Bells, CutStage
from tests.support.pipeline_sim import Sim
from tests.support.replayed_table import ReplayedTable
from tests.support.sim_load import Checkpoint, Saved
from tests.support.sim_ring import Home


def workers(sim):
    """What workers can do without the trainer's copying."""
    stages = (sim.keys, *sim.stages.values())
    while any(stage.step() for stage in stages):
        pass


def train(sim, *keys, timestamp=0):
    """A step, while no snapshot is copied."""
    batch = sim.submit(*keys, timestamp=timestamp)
    workers(sim)
    for index in range(len(sim.tables)):
        assert sim.claim(batch, index)
    sim.close(batch)
    workers(sim)
    return batch


def header(sim, name, index=0):
    return int(sim.tables[index].header[name])


@pytest.mark.parametrize("sim", [
    Sim([8]), Sim([3], homes=[Home(8)]), Sim([0], homes=[Home(8)]), Sim([3], homes=[Home(8, threshold=2)])],
    ids=["device", "host", "expansion", "counted"])
def test_what_is_trained_while_entries_are_copied_is_not_in_the_snapshot(sim):
    sim.train([1, 2, 3], timestamp=5)
    sim.train([1, 2], timestamp=6)
    snapshot = sim.begin_snapshot(0)
    train(sim, [1, 4, 5], timestamp=7)
    assert snapshot.advance()
    train(sim, [2, 3, 6], timestamp=8)
    sim.work()
    assert snapshot.is_over
    assert snapshot.images == 3
    sim.check(0)


def test_an_entry_gets_one_image_however_often_it_changes():
    sim = Sim([8])
    sim.train([1, 2])
    snapshot = sim.begin_snapshot(0)
    for _ in range(4):
        train(sim, [1, 3])
    assert header(sim, "snapshot_logged") == 1
    sim.work()
    assert snapshot.is_over


def test_an_entry_that_has_an_image_gets_no_other_from_a_successor():
    sim = Sim([8])
    sim.train([1, 2, 3])
    snapshot = sim.begin_snapshot(0)
    train(sim, [1])
    sim.kill(0)
    train(sim, [1, 2])
    assert header(sim, "snapshot_logged") == 2
    sim.work()
    assert snapshot.is_over


def test_an_entry_that_is_copied_gets_no_image():
    sim = Sim([8])
    sim.train([1, 2, 3])
    snapshot = sim.begin_snapshot(0)
    assert snapshot.advance()
    train(sim, [1])  # in the copy, but not published
    assert snapshot.advance()
    train(sim, [2])
    assert header(sim, "snapshot_logged") == 1
    sim.work()
    assert snapshot.is_over


def test_victims_get_an_image_too():
    sim = Sim([2], homes=[Home(8)])
    sim.train([1, 2])
    snapshot = sim.begin_snapshot(0)
    train(sim, [3])
    assert header(sim, "snapshot_logged") == 1  # of the one that lost its slot
    sim.work()
    assert snapshot.is_over


def test_a_batch_that_is_counted_only_leaves_images():
    sim = Sim([8, 8])
    sim.train([1], [1, 2])
    snapshot = sim.begin_snapshot(1)
    batch = sim.submit([1], [1, 3])
    workers(sim)
    assert sim.claim(batch, 0)
    sim.close(batch)
    workers(sim)
    assert sim.trained_state(1)[1][0] == 2
    assert header(sim, "snapshot_logged", 1) == 1
    sim.work()
    assert snapshot.is_over


def test_a_name_that_is_trained_meanwhile_is_not_in_the_snapshot():
    sim = Sim([8])
    sim.train([1])
    ahead = sim.submit([5, 6])
    workers(sim)
    assert sim.word(ahead.number, 0) == PLANNED  # their entries are names
    snapshot = sim.begin_snapshot(0)
    assert sim.claim(ahead, 0)
    sim.close(ahead)
    sim.work()
    assert snapshot.is_over
    assert snapshot.images == 2
    assert set(sim.truth(0)) == {1, 5, 6}


def test_the_next_snapshot_begins_with_an_empty_log():
    sim = Sim([8])
    sim.train([1, 2])
    for _ in range(3):
        snapshot = sim.begin_snapshot(0)
        train(sim, [1])
        sim.work()
        assert snapshot.is_over
        assert snapshot.images == 1
        assert header(sim, "snapshot_logged") == 1


@pytest.mark.parametrize("why", ["capacity", "memory"])
def test_without_room_for_its_images_a_record_waits_for_the_end_of_the_snapshot(why, monkeypatch):
    sim = Sim([8], log_capacity=2 if why == "capacity" else None)
    sim.train([1, 2, 3, 4])
    if why == "memory":
        monkeypatch.setattr(sim.tables[0], "ready_log", lambda count: count <= 2)
        sim.kill(0)
    snapshot = sim.begin_snapshot(0)
    train(sim, [1, 5])
    waiting = train(sim, [2, 3, 4])
    assert sim.word(waiting.number, 0) == DONE
    behind = sim.submit([2, 7])
    workers(sim)
    assert sim.word(behind.number, 0) < TOUCHED  # nothing else is done for the table
    assert (header(sim, "snapshot_waits"), header(sim, "snapshot_logged")) == (1, 1)
    for _ in range(3):
        assert snapshot.advance()
        workers(sim)
        assert sim.word(waiting.number, 0) == DONE
    sim.work()
    assert snapshot.is_over
    assert sim.word(waiting.number, 0) == RETIRED
    assert sim.claim(behind, 0)
    sim.close(behind)
    sim.work()
    sim.check(0)
    assert header(sim, "snapshot_waits") == 1


def test_a_worker_that_dies_while_a_record_waits_is_followed_by_one_that_waits():
    sim = Sim([8], log_capacity=2)
    sim.train([1, 2, 3, 4])
    snapshot = sim.begin_snapshot(0)
    waiting = train(sim, [2, 3, 4])
    sim.kill(0)
    workers(sim)
    assert sim.word(waiting.number, 0) == DONE
    assert sim.trained_state(0)[2][0] == 1
    assert header(sim, "snapshot_waits") == 2
    sim.work()
    assert snapshot.is_over
    sim.check(0)


def test_a_record_whose_entries_have_images_does_not_wait_though_the_log_is_full():
    sim = Sim([8], log_capacity=2)
    sim.train([1, 2, 3])
    snapshot = sim.begin_snapshot(0)
    train(sim, [1, 2])
    again = train(sim, [2, 1, 9])
    assert sim.word(again.number, 0) == RETIRED
    sim.work()
    assert (snapshot.images, header(sim, "snapshot_waits")) == (2, 0)


CUTS = {
    "eviction": lambda sim: sim.ask_eviction(0, 0),
    "reset": lambda sim: sim.ask_reset(0),
    "load": lambda sim: sim.ask_load(0, Checkpoint({7: Saved(3, 0, 1)})),
}


@pytest.mark.parametrize("kind", sorted(CUTS))
def test_a_cut_that_changes_entries_waits_for_the_end_of_the_snapshot(kind):
    sim = Sim([8])
    sim.train([1, 2, 3])
    snapshot = sim.begin_snapshot(0)
    CUTS[kind](sim)
    ahead = sim.submit([2])
    workers(sim)
    assert header(sim, "cut_committed") < header(sim, "cut_asked")
    assert sim.word(ahead.number, 0) == TOUCHED  # else the worker goes on
    assert set(sim.trained_state(0)) == {1, 2, 3}
    sim.kill(0)
    workers(sim)
    assert header(sim, "cut_committed") < header(sim, "cut_asked")
    sim.work()
    assert snapshot.is_over
    assert sim.cut_is_applied(0)
    assert set(sim.trained_state(0)) == ({7} if kind == "load" else set())


def test_a_threshold_does_not_wait():
    sim = Sim([3], homes=[Home(8, threshold=1)])
    sim.train([1, 2])
    snapshot = sim.begin_snapshot(0)
    sim.ask_threshold(0, 5)
    workers(sim)
    assert sim.cut_is_applied(0)
    sim.work()
    assert snapshot.is_over


@pytest.mark.parametrize("kind", sorted(CUTS))
def test_cuts_of_a_table_without_a_training_stream_wait_too(kind):
    sim = Sim([8])
    sim.train([1, 2, 3])
    stage = CutStage(sim.tables[0], ReplayedTable(sim, 0), Bells(lambda: None, lambda: None))
    snapshot = sim.begin_snapshot(0)
    CUTS[kind](sim)
    assert stage.step() == 0
    while snapshot.advance():
        pass
    assert stage.step() == 1


def test_a_snapshot_of_an_empty_table_is_over_at_once():
    sim = Sim([8])
    snapshot = sim.begin_snapshot(0)
    train(sim, [1])
    assert header(sim, "snapshot_logged") == 0
    sim.ask_reset(0)
    workers(sim)
    assert sim.cut_is_applied(0)
    assert snapshot.advance()
    assert snapshot.is_over
