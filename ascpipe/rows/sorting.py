"""Rows in the order of their keys. Only the keys, and a part of the rows, are in memory at the same time."""
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Iterable, Iterator, List, Sequence

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.rows.columns import Column

Arrays = List[np.ndarray]  #: one array for each column; the first array has the keys
Blocks = Callable[[], Iterable[Arrays]]

_PART_BYTES = 16 << 20  #: rows that are sorted in memory at a time


def in_key_order(blocks: Blocks, passed: List[np.ndarray], columns: Sequence[Column], folder: str) -> Iterator[Arrays]:
    """Yield all rows in the order of their keys.

    The keys are divided into ranges of ``_PART_BYTES`` of rows. One pass over the blocks writes each row to the range
    of its key, in a temporary file. Then each range is read and sorted. If the blocks are already in order, they are
    yielded without a copy.

    Args:
        blocks: returns the blocks, which have no key twice.
        passed: list whose only item has all keys in the order of the blocks, as int64[n]. The list becomes empty, so
            that the memory of the keys is freed as early as possible.
        columns: columns of the blocks.
        folder: directory of the temporary file.

    Raises:
        OSError: the temporary file cannot be written or read.
    """
    keys = passed.pop()
    if (keys[1:] > keys[:-1]).all():
        del keys
        yield from blocks()
        return
    keys.sort()
    part_rows = max(1, _PART_BYTES // sum(column.row_bytes for column in columns))
    bounds = keys[::part_rows].copy()
    count = len(keys)
    del keys
    starts = np.cumsum([0, *(column.row_bytes * count for column in columns)]).tolist()
    with tempfile.TemporaryFile(dir=folder) as file:
        fd = file.fileno()
        _divide(blocks(), bounds, part_rows, starts, fd)

        def read(first: int) -> Arrays:
            rows = min(part_rows, count - first)
            arrays = [np.empty((rows, column.width) if column.width else rows, column.dtype) for column in columns]
            for values, start, column in zip(arrays, starts, columns):
                disk.read_into(fd, start + first * column.row_bytes, values)
            order = np.argsort(arrays[0])
            return [values.take(order, axis=0) for values in arrays]

        with ThreadPoolExecutor(1) as thread:  # the next range is sorted while the caller writes this range
            ahead = thread.submit(read, 0)
            for first in range(part_rows, count + part_rows, part_rows):
                arrays = ahead.result()
                if first < count:
                    ahead = thread.submit(read, first)
                yield arrays


def _divide(blocks: Iterable[Arrays], bounds: np.ndarray, part_rows: int, starts: Sequence[int], fd: int) -> None:
    """Write each row to the range of its key. Range i begins at row ``i * part_rows``.

    Args:
        bounds: smallest key of each range.
        starts: for each column, the byte of the file at which its values begin.
    """
    ends = np.arange(len(bounds)) * part_rows  # next free row of each range
    for arrays in blocks:
        ranges = np.searchsorted(bounds, arrays[0], "right") - 1
        if len(bounds) < 1 << 16:
            ranges = ranges.astype(np.uint16)  # numpy sorts such numbers several times as fast
        order = np.argsort(ranges, kind="stable")
        counts = np.bincount(ranges, minlength=len(bounds))
        here = np.flatnonzero(counts)
        runs = list(zip(ends[here].tolist(), counts[here].tolist()))
        ends += counts
        for start, values in zip(starts, arrays):
            sorted_values = memoryview(values.take(order, axis=0)).cast("B")
            row_bytes = sorted_values.nbytes // len(values)
            for row, size in runs:
                disk.write_at(fd, start + row * row_bytes, sorted_values[:size * row_bytes])
                sorted_values = sorted_values[size * row_bytes:]


def regrouped(blocks: Iterable[Arrays], rows: int) -> Iterator[Arrays]:
    """Yield the same rows as blocks of ``rows`` rows; the last block may have fewer rows."""
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
