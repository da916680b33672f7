"""Loads of tables with rows on disk that the trainer gives up, while the disk worker may still write rows."""
import pytest

from ascpipe.layout.words import REQUEST_ASKED, REQUEST_DONE, REQUEST_FAILED, REQUEST_READ, REQUEST_TAKEN, REQUEST_WRITE
from tests.support.pipeline_sim import Sim
from tests.support.sim_load import Checkpoint, Saved
from tests.support.sim_ring import Home

LOADER = 1  # number of the reader that writes rows of loads
KEYS = range(10, 15)


def given_up():
    """A load of five rows, three of them on disk, that the trainer gives up after it has stored most of them."""
    sim = Sim([1], homes=[Home(2, disk=8)])
    sim.ask_load(0, Checkpoint({key: Saved(1, 0, 2) for key in KEYS}), fails_after=len(KEYS) * 2 + 4)
    return sim


def is_applied(sim):
    header = sim.tables[0].header
    return bool(header["cut_applied"] == header["cut_asked"])


@pytest.mark.parametrize("word", [REQUEST_ASKED, REQUEST_TAKEN])
@pytest.mark.parametrize("restarts", [False, True])
def test_disk_slots_of_a_failed_load_are_not_used_while_a_row_is_being_written(word, restarts):
    sim = given_up()
    request = sim.tables[0].reads[LOADER][3]
    request["kind"], request["word"] = REQUEST_WRITE, word
    sim.work()
    if restarts:
        sim.kill(0)
        sim.work()
    assert not is_applied(sim)
    request["word"] = REQUEST_DONE
    sim.work()
    assert is_applied(sim)
    sim.train([1])
    sim.check(0)


@pytest.mark.parametrize("kind, word", [(REQUEST_READ, REQUEST_TAKEN), (REQUEST_WRITE, REQUEST_FAILED)])
def test_a_failed_load_does_not_wait_for_reads_and_finished_requests(kind, word):
    sim = given_up()
    request = sim.tables[0].reads[LOADER][0]
    request["kind"], request["word"] = kind, word
    sim.work()
    assert is_applied(sim)


def test_a_load_after_a_failed_load_writes_rows_with_other_generations():
    sim = given_up()
    sim.work()
    written = {slot: row for slot, row in sim.disks[0].rows.items() if row is not None}
    assert written
    sim.ask_load(0, Checkpoint({key: Saved(1, 0, 7) for key in KEYS}))
    sim.work()
    now = sim.disks[0].rows
    assert all(now[slot].generation != row.generation for slot, row in written.items())
    sim.check(0)
