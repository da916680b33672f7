"""The disk worker with a real row file: it serves requests, and repeats requests that a dead worker left unfinished."""
import os

import numpy as np
import pytest

from ascpipe.disk import row_engine
from ascpipe.disk.row_engine import RowEngine
from ascpipe.layout import structs
from ascpipe.layout.words import REQUEST_ASKED, REQUEST_DONE, REQUEST_FAILED, REQUEST_READ, REQUEST_TAKEN, REQUEST_WRITE
from ascpipe.shm.bell import Bell
from ascpipe.workers.disk_worker import DiskTable, File
from tests.support.row_files import LIMIT_S
from tests.support.sim_ring import make_table
from tests.support.waiting import wait_until

HOMES, FLOATS = 6, 3
ROW = [1.5, -2.0, 7.25]


class Asking:
    """Sends requests to a disk worker, as the table worker and readers do.

    Attributes:
        view: of the table.
    """

    def __init__(self, folder):
        self.view = make_table(4, 16, home_rows=HOMES, row_floats=FLOATS, disk_slots=40)
        self.view.header["homes_ready"] = HOMES
        self._file = row_engine.create_file(str(folder), 4 * FLOATS)
        session = np.zeros(structs.SESSION_BYTES, np.uint8)
        self._bells = [Bell(session, number) for number in (structs.BELL_TABLE_WORKERS, structs.BELL_TRAINER)]
        self._engines = []

    def worker(self):
        """Return a disk worker that has just started."""
        engine = RowEngine(2)
        self._engines.append(engine)
        file = File(engine.adopt(self._file.fd, self._file.directory, 4 * FLOATS), 1 << 20)
        return DiskTable(self.view, [file], engine, *(bell.at for bell in self._bells))

    def request(self, kind, home, slot, word=REQUEST_ASKED, generation=1):
        """Write a request for the row of key 5. With another word, it is a request that an earlier disk worker left."""
        request = self.view.requests[home]
        for name, value in (("key", 5), ("slot", slot), ("entry", 0), ("generation", generation), ("kind", kind),
                            ("word", word)):
            request[name] = value
        if word == REQUEST_ASKED:
            asked = int(self.view.disk_table["asked"])
            self.view.asks[asked % len(self.view.asks)] = home
            self.view.disk_table["asked"] = asked + 1

    def ended(self, request):
        """Wait for the end of a request, and return its word."""
        wait_until(lambda: request["word"] not in (REQUEST_ASKED, REQUEST_TAKEN), what="the end of a request")
        return request["word"]

    def close(self):
        for engine in self._engines:
            engine.close(LIMIT_S)
        os.close(self._file.fd)


@pytest.fixture
def asking(tmp_path):
    made = Asking(tmp_path)
    yield made
    made.close()


def written(asking, worker):
    """Write ROW to disk slot 9 with generation 1."""
    asking.view.homes[0] = ROW
    asking.request(REQUEST_WRITE, 0, 9)
    worker.step()
    assert asking.ended(asking.view.requests[0]) == REQUEST_DONE


def test_a_row_is_read_as_it_was_written_and_an_older_one_is_not(asking):
    worker = asking.worker()
    written(asking, worker)
    for home, generation in ((2, 1), (3, 2)):
        asking.request(REQUEST_READ, home, 9, generation=generation)
    assert worker.step() == 2
    assert asking.ended(asking.view.requests[2]) == REQUEST_DONE
    assert asking.ended(asking.view.requests[3]) == REQUEST_FAILED
    assert asking.view.homes[2].tolist() == ROW


@pytest.mark.parametrize("word", [REQUEST_ASKED, REQUEST_TAKEN])
def test_a_successor_does_what_its_predecessor_had_not_ended(word, asking):
    first = asking.worker()
    written(asking, first)
    asking.request(REQUEST_READ, 2, 9, word)
    asking.view.homes[4] = ROW[::-1]
    asking.request(REQUEST_WRITE, 4, 30, word)
    second = asking.worker()
    second.take_over()
    assert [asking.ended(asking.view.requests[home]) for home in (2, 4)] == [REQUEST_DONE] * 2
    assert asking.view.homes[2].tolist() == ROW
    asking.request(REQUEST_READ, 5, 30)
    second.step()
    assert asking.ended(asking.view.requests[5]) == REQUEST_DONE
    assert asking.view.homes[5].tolist() == ROW[::-1]


@pytest.mark.parametrize("reader", range(structs.DISK_READERS))
@pytest.mark.parametrize("dies", [False, True])
def test_reads_of_evaluations_and_saves_are_done_also_by_a_successor(reader, dies, asking):
    worker = asking.worker()
    written(asking, worker)
    request = asking.view.reads[reader][3]
    for name, value in (("key", 5), ("slot", 9), ("generation", 1), ("kind", REQUEST_READ),
                        ("word", REQUEST_TAKEN if dies else REQUEST_ASKED)):
        request[name] = value
    asking.view.disk_table["reads_asked"][reader] += 1
    if dies:
        worker = asking.worker()
        worker.take_over()
    worker.step()
    assert asking.ended(request) == REQUEST_DONE
    assert asking.view.read_rows[reader][3].tolist() == ROW


@pytest.mark.parametrize("reader", range(structs.DISK_READERS))
@pytest.mark.parametrize("word", [REQUEST_ASKED, REQUEST_TAKEN])
def test_a_request_that_a_successor_has_taken_over_is_not_executed_twice(reader, word, asking):
    written(asking, asking.worker())
    request = asking.view.reads[reader][3]
    for name, value in (("key", 5), ("slot", 9), ("generation", 1), ("kind", REQUEST_READ), ("word", word)):
        request[name] = value
    asking.view.disk_table["reads_asked"][reader] += 1
    worker = asking.worker()
    worker.take_over()
    assert asking.ended(request) == REQUEST_DONE
    request["word"] = REQUEST_TAKEN  # as if a thread had not finished it yet
    assert worker.step() == 0
    assert request["word"] == REQUEST_TAKEN
