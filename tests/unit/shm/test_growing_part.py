"""Parts of a segment get memory as they are used, and too little of it is an answer, not a signal."""
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascpipe.layout import structs
from ascpipe.layout.table_shape import log_capacity, table_shape
from ascpipe.shm import growing_part, memory, segment
from ascpipe.shm.ring import TableView

BYTES = 4096


def allocated(fd):
    return os.fstat(fd).st_blocks * 512


@pytest.fixture
def fd():
    made = segment.create(structs.PAGE + (64 << 20), "a test", use_memfd=True, present=structs.PAGE)
    yield made
    os.close(made)


@given(st.integers(0, 10**9), st.integers(1, 10**6), st.integers(0, 10**9), st.integers(1, 10**5))
def test_a_step_gives_what_is_wanted_and_stays_below_the_limit(ready, more, spare, item_bytes):
    wanted = ready + more
    limit = wanted + spare
    goal = growing_part.step(ready, wanted, limit, item_bytes)
    assert wanted <= goal <= limit
    assert goal == limit or goal - ready >= ready // 4


def test_only_what_is_used_takes_memory(fd):
    part = growing_part.GrowingPart(fd, structs.PAGE, BYTES, 16384)
    assert allocated(fd) == structs.PAGE
    ready = part.ready(0, 1)
    assert ready * BYTES == growing_part.MIN_STEP_BYTES
    assert allocated(fd) == structs.PAGE + growing_part.MIN_STEP_BYTES
    assert part.ready(ready, ready) == ready
    more = part.ready(ready, ready + 1)
    assert allocated(fd) == structs.PAGE + more * BYTES


def test_nothing_grows_beyond_its_limit(fd):
    part = growing_part.GrowingPart(fd, structs.PAGE, BYTES, 300)
    assert part.ready(0, 301) == 0
    assert part.ready(0, 300) == 300


def test_where_memory_is_short_a_smaller_step_is_tried_and_then_the_answer_is_no(fd, monkeypatch):
    asked = []

    def require(need, what, **_):
        asked.append(need)
        if need > room:
            raise growing_part.OutOfSharedMemoryError(what, need, "a test")

    monkeypatch.setattr(memory, "require", require)
    part, room = growing_part.GrowingPart(fd, structs.PAGE, BYTES, 16384), 3 * BYTES
    assert part.ready(0, 2) == 2
    assert asked == [growing_part.MIN_STEP_BYTES, 2 * BYTES]
    assert part.ready(2, 100) == 2
    assert allocated(fd) == structs.PAGE + 2 * BYTES


def test_memory_that_was_given_and_not_noted_is_given_again_with_its_content(fd):
    part = growing_part.GrowingPart(fd, structs.PAGE, BYTES, 16384)
    ready = part.ready(0, 1)
    mapped = segment.map(fd, structs.PAGE + (64 << 20))
    mapped[structs.PAGE] = 7
    assert part.ready(0, 1) == ready  # as a successor does, whose predecessor died before it said so
    assert mapped[structs.PAGE] == 7


def test_a_table_says_in_its_header_what_has_memory():
    shape = table_shape(10, 1 << 20, 1 << 20, 8)
    fd = segment.create(shape.total_bytes, "a test", use_memfd=True, present=shape.entries_offset)
    try:
        mapped = segment.map(fd, shape.total_bytes)
        header = mapped[:structs.TABLE.itemsize].view(structs.TABLE)[0]
        for name, value in {"device_rows": 10, "entry_capacity": 1 << 20, "home_capacity": 1 << 20, "row_floats": 8,
                            "entries_offset": shape.entries_offset, "slots_offset": shape.slots_offset,
                            "home_offset": shape.home_offset, "log_offset": shape.log_offset,
                            "log_capacity": log_capacity(1 << 20)}.items():
            header[name] = value
        view = TableView(mapped, fd)
        assert view.homes.shape == (1 << 20, 8)
        assert view.ready_entries(100)
        assert header["entries_ready"] >= 100
        assert header["homes_ready"] == 0
        assert view.ready_homes(5)
        view.homes[4] = np.arange(8)
        assert not view.ready_homes((1 << 20) + 1)
        assert view.log.shape == (1 << 16,)
        assert header["snapshot_log_ready"] == 0
        assert view.ready_log(3)
        view.log["entry"][2] = 7
        assert not view.ready_log((1 << 16) + 1)
        assert header["snapshot_log_ready"] == growing_part.MIN_STEP_BYTES // structs.IMAGE.itemsize + 1
        assert header["homes_ready"] == growing_part.MIN_STEP_BYTES // 32
        assert allocated(fd) < 8 << 20
    finally:
        os.close(fd)
