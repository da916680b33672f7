"""Function that sorts rows by key. Only the keys and some of the rows are in memory at the same time."""
import contextlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, ContextManager, Iterable, Iterator, List, NamedTuple, Sequence

import numpy as np

from ascpipe.checkpoint import disk, key_order
from ascpipe.rows.columns import Column

Arrays = List[np.ndarray]  #: one array for each column; the first array contains the keys
Blocks = Callable[[], Iterable[Arrays]]

_PART_BYTES = 16 << 20  #: rows that are sorted in memory at a time
_SAMPLES = 256  #: keys for each range, from which the bounds of the ranges are estimated


class Room(NamedTuple):
    """Range of bytes in a file, for the values of a column.

    Attributes:
        fd: descriptor for reading and writing.
        start: first byte.
    """

    fd: int
    start: int


Rooms = Callable[[], ContextManager[Sequence[Room]]]


class _Ranges(NamedTuple):
    """Ranges of keys.

    Attributes:
        of_rows: uint16[n] or uint32[n], range of each row, in the order of the blocks.
        counts: number of rows of each range, in the order of their keys.
    """

    of_rows: np.ndarray
    counts: np.ndarray


def in_key_order(blocks: Blocks, passed: List[np.ndarray], columns: Sequence[Column], rooms: Rooms) -> Iterator[Arrays]:
    """Yield all rows, sorted by key.

    The keys are divided into ranges of about ``_PART_BYTES`` of rows. One pass over the blocks writes each row to the
    range of its key, in ``rooms``. Then each range is read and sorted. If the blocks are already in order, they are
    yielded without a copy.

    Args:
        blocks: function that returns the blocks. No key occurs twice in the blocks.
        passed: list whose only item is an array of all keys in the order of the blocks, as int64[n]. The list
            becomes empty, so that the memory of the keys is freed as early as possible.
        columns: columns of the blocks.
        rooms: function that returns a context manager, which yields room for the rows of each column. The caller may
            overwrite the room of rows that were yielded.

    Raises:
        OSError: the rooms cannot be written or read.
    """
    keys = passed.pop()
    if (keys[1:] > keys[:-1]).all():
        del keys
        yield from blocks()
        return
    ranges = _ranges_of(keys, max(1, _PART_BYTES // sum(column.row_bytes for column in columns)))
    del keys
    ends = np.cumsum(ranges.counts[ranges.counts > 0]).tolist()
    with rooms() as given, ThreadPoolExecutor(1) as thread:
        _divide(blocks(), ranges, given)

        # Only one range is read at a time, so all ranges are read into the same memory.
        most = int(ranges.counts.max())
        unsorted = [np.empty((most, column.width) if column.width else most, column.dtype) for column in columns]
        scratch = key_order.scratch_for(most)

        def read(first: int, end: int) -> Arrays:
            arrays = [values[:end - first] for values in unsorted]
            for values, room, column in zip(arrays, given, columns):
                disk.read_into(room.fd, room.start + first * column.row_bytes, values)
            order = key_order.order_of(arrays[0], scratch)
            return [key_order.gathered(values, order) for values in arrays]

        ahead = thread.submit(read, 0, ends[0])  # the next range is sorted while the caller writes this range
        for place, end in enumerate(ends, 1):
            arrays = ahead.result()
            if place < len(ends):
                ahead = thread.submit(read, end, ends[place])
            yield arrays


def _ranges_of(keys: np.ndarray, part_rows: int) -> _Ranges:
    """Divide keys into ranges of about ``part_rows`` keys. The bounds of the ranges are estimated from random keys."""
    parts = -(-len(keys) // part_rows)
    chosen = np.random.RandomState(len(keys) % (1 << 32)).randint(0, len(keys), _SAMPLES * parts)
    sample = np.sort(keys[chosen])
    bounds = np.unique(sample[_SAMPLES::_SAMPLES])  # the first range contains all smaller keys
    return _Ranges(*key_order.ranges_of(keys, bounds))


def _divide(blocks: Iterable[Arrays], ranges: _Ranges, rooms: Sequence[Room]) -> None:
    """Write each row to the part of ``rooms`` that is reserved for the range of the row's key."""
    ends = np.cumsum(ranges.counts) - ranges.counts  # next free row of each range
    done = 0
    for arrays in blocks:
        of_rows = ranges.of_rows[done:done + len(arrays[0])]
        done += len(arrays[0])
        order, counts = key_order.grouped(of_rows, len(ends))
        here = np.flatnonzero(counts)
        runs = list(zip(ends[here].tolist(), counts[here].tolist()))
        ends += counts
        for room, values in zip(rooms, arrays):
            sorted_values = memoryview(key_order.gathered(np.ascontiguousarray(values), order)).cast("B")
            row_bytes = sorted_values.nbytes // len(values)
            for row, size in runs:
                disk.write_at(room.fd, room.start + row * row_bytes, sorted_values[:size * row_bytes])
                sorted_values = sorted_values[size * row_bytes:]


@contextlib.contextmanager
def temporary_rooms(folder: str, columns: Sequence[Column], rows: int) -> Iterator[List[Room]]:
    """Context manager that creates a temporary file in ``folder``, and yields space in the file for ``rows`` rows."""
    starts = np.cumsum([0, *(column.row_bytes * rows for column in columns)]).tolist()
    with tempfile.TemporaryFile(dir=folder) as file:
        yield [Room(file.fileno(), start) for start, _ in zip(starts, columns)]


def regrouped(blocks: Iterable[Arrays], rows: int) -> Iterator[Arrays]:
    """Yield the rows of ``blocks`` in blocks of ``rows`` rows. The last block may contain fewer rows."""
    waiting: List[Arrays] = []
    count = 0
    for arrays in blocks:
        start = 0
        while count + len(arrays[0]) - start >= rows:
            end = start + rows - count
            yield _joined([*waiting, [values[start:end] for values in arrays]])
            start = end
            count = 0
            waiting = []
        if start < len(arrays[0]):
            waiting.append([values[start:] for values in arrays])
            count += len(arrays[0]) - start
    if count:
        yield _joined(waiting)


def _joined(parts: Sequence[Arrays]) -> Arrays:
    return list(parts[0]) if len(parts) == 1 else [np.concatenate(values) for values in zip(*parts)]
