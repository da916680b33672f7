"""A process that looks at a table gets its memory for reading only, and where things lie as the daemon made them."""
import os

import numpy as np
import pytest

from ascpipe.cli.readers import read_of
from ascpipe.config import load_settings
from ascpipe.control import messages
from ascpipe.daemon import table_readers
from ascpipe.daemon.session_memory import SessionMemory
from ascpipe.errors import WrongStateError
from ascpipe.layout import structs
from ascpipe.layout.words import TRAINED
from ascpipe.shm.memory import Places
from ascpipe.shm.table_reader import RingReader, TableReader
from tests.unit.daemon.test_damaged_memory import damage

PATIENCE_S = 0.02


@pytest.fixture
def memory():
    start = messages.Start(
        (messages.Stream(0, 1, (0, 1)), messages.Stream(1, 0, (1, 0)), messages.Stream(2, 2, (1,), 2)),
        (messages.Table(0, "user", 4, 100), messages.Table(1, "item", 4, 10), messages.Table(2, "read", 4, 10)),
        b"x" * messages.TOKEN_BYTES)
    made = SessionMemory(start, load_settings({}, {"ASCPIPE_RING_BYTES": str(1 << 16)}), 1, Places(), private=True)
    yield made
    made.close()


def reader_of(name, body, fds):
    return TableReader(name, read_of(fds[0]), body["entries_offset"], body["capacity"], [
        RingReader(read_of(fd), ring["bytes"], ring["tables"], ring["column"])
        for fd, ring in zip(fds[1:], body["rings"])])


def test_of_the_rings_the_one_that_trains_the_table_is_handed_out(memory):
    with table_readers.opened(memory, "user", "serving") as (body, fds):
        assert [(ring["tables"], ring["column"]) for ring in body["rings"]] == [(2, 1)]
        assert [os.fstat(fd).st_ino for fd in fds] == [os.fstat(made.fd).st_ino for made in (
            memory.tables[0], memory.rings[1])]
    with table_readers.opened(memory, "read", "serving") as (body, fds):
        assert (body["rings"], len(fds)) == ([], 1)


def test_the_descriptors_are_for_reading_only_and_are_closed_afterwards(memory):
    with table_readers.opened(memory, "user", "serving") as (_, fds):
        for fd in fds:
            with pytest.raises(OSError):
                os.pwrite(fd, b"x", 0)
    for fd in fds:
        with pytest.raises(OSError):
            os.fstat(fd)


def test_without_a_session_or_such_a_table_it_is_refused(memory):
    with pytest.raises(WrongStateError, match="E219: The daemon cannot read table 'user' while it is idle: "):
        with table_readers.opened(None, "user", "idle"):
            pass
    with pytest.raises(WrongStateError, match="has no such table"):
        with table_readers.opened(memory, "other", "serving"):
            pass


def test_what_is_there_is_read_where_the_daemon_says(memory):
    with table_readers.opened(memory, "item", "serving") as (body, fds):
        header = memory.tables[1].view(structs.TABLE)[0]
        entry = memory.tables[1].view(structs.ENTRY, int(header["entries_offset"]))[0]
        header["entries_used"], header["retired"] = 1, 9
        entry["key"], entry["count"], entry["state"], entry["slot"], entry["home"] = 77, 3, TRAINED, 5, -1
        (seen,) = reader_of("item", body, fds).look([77])
        assert (seen.occurrences, seen.slot, seen.as_of) == (3, 5, 9)


@pytest.mark.parametrize("number", range(20))
def test_no_word_in_shared_memory_is_an_error_of_a_reader_but_that_it_is_being_changed(memory, seed, number):
    damage(memory, np.random.RandomState((seed + number) % 2**32))
    with table_readers.opened(memory, "user", "serving") as (body, fds):
        reader = reader_of("user", body, fds)
        reader.pins([1, 2])
        reader.sample(3, 0.0)
        for look in (lambda: reader.look([1, 2], PATIENCE_S), lambda: reader.hottest(3, PATIENCE_S)):
            try:
                look()
            except WrongStateError:
                pass
