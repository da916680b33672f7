"""The row engine through ctypes: rows, refusals, ends."""
import numpy as np
import pytest

from ascpipe.disk.row_engine import FOREIGN, NEVER_WRITTEN, STALE, RowEngine, RowEngineError
from ascpipe.errors import AscpipeError
from ascpipe.tfops import load
from ascpipe.tfops.load import OpsMismatchError, OpsMissingError
from tests.support.row_files import LIMIT_S, MemoryRows, content

STEP = 1 << 20


@pytest.fixture
def engine():
    opened = RowEngine(3)
    yield opened
    opened.close(LIMIT_S)


@pytest.mark.parametrize("buffered", [False, True])
def test_rows_are_read_as_they_were_written_and_others_are_told_apart(engine, tmp_path, buffered):
    file = engine.create(str(tmp_path), 128, buffered=buffered)
    engine.grow(file, 10, STEP)
    keys = np.arange(-50, 50, dtype=np.int64)
    rows = MemoryRows(128, keys + 100, keys, 3)
    assert not rows.write(engine, file).any()
    assert not rows.read(engine, file).any()
    asked = MemoryRows(128, [50, 51, 52, 0], [-50, -50, -48, 0], [3, 3, 4, 1])
    assert asked.read(engine, file).tolist() == [0, FOREIGN, STALE, NEVER_WRITTEN]
    figures = engine.figures(file)
    assert (figures.rows_read, figures.rows_damaged, figures.rows_written) == (101, 3, 100)
    assert figures.read_p50_us > 0 and figures.read_p99_us >= figures.read_p50_us
    assert list(tmp_path.iterdir()) == []


def test_a_write_keeps_the_neighbours_of_a_row_unless_all_rows_of_the_block_are_alone(engine, tmp_path):
    file = engine.create(str(tmp_path), 128)
    engine.grow(file, 10, STEP)
    old = MemoryRows(128, [0, 1, 2], [10, 11, 12], 1)
    assert not old.write(engine, file).any()
    new = MemoryRows(128, [0, 1], [20, 21], 2, alone=np.array([1, 0], np.uint8))
    assert not new.write(engine, file).any()
    neighbour = MemoryRows(128, [2], [12], 1)
    assert neighbour.read(engine, file).tolist() == [0]


def test_a_file_is_described_and_taken_over_by_its_descriptor(engine, tmp_path):
    file = engine.create(str(tmp_path), 512)
    engine.grow(file, 3, STEP)
    known = engine.describe(file)
    assert (known.blocks, known.block_bytes, known.slots_per_block) == (256, 4096, 7)
    assert not MemoryRows(512, [9], [5], 1).write(engine, file).any()
    successor = RowEngine(1)
    adopted = successor.adopt(known.fd, str(tmp_path), 512)
    assert not MemoryRows(512, [9], [5], 1).read(successor, adopted).any()
    successor.close(LIMIT_S)


def test_what_is_refused_is_an_error_with_the_engine_s_text(engine, tmp_path):
    file = engine.create(str(tmp_path), 128)
    for call, text in (
            (lambda: engine.create(str(tmp_path / "none"), 128), "No such file or directory"),
            (lambda: engine.create(str(tmp_path), 0), "a row of 0 bytes does not fit"),
            (lambda: engine.describe(7), "there is no row file 7"),
            (lambda: engine.grow(file, 1 << 50), "a row file has no"),
            (lambda: MemoryRows(128, [0], [5], 1).read(engine, file), "disk slot 0 of key 5 is not one of the 0")):
        with pytest.raises(RowEngineError, match=text) as caught:
            call()
        assert isinstance(caught.value, AscpipeError)


def test_a_batch_that_is_cancelled_is_over_and_an_engine_closes_twice(engine, tmp_path):
    file = engine.create(str(tmp_path), 128)
    engine.grow(file, 10, STEP)
    rows = MemoryRows(128, [0, 40], [1, 2], 1)
    rows.memory[:] = content([1, 2], [1, 1], 128)
    batch = engine.write(file, rows.rows)
    engine.cancel(batch)
    assert batch.wait(LIMIT_S)
    engine.close(LIMIT_S)
    engine.close(LIMIT_S)


def test_a_library_that_is_missing_or_of_another_layout_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(load.structs, "layout_hash", lambda: 5)
    with pytest.raises(OpsMismatchError, match="shared-memory layout"):
        RowEngine(1)
    monkeypatch.setattr(load, "FILES_LIBRARY", tmp_path / "none.so")
    with pytest.raises(OpsMissingError, match="make build"):
        RowEngine(1)
