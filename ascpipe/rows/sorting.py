"""Rows in the order of their keys. Only the keys, and a part of the rows, are in memory at the same time."""
import os
import tempfile
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
    record = np.dtype([(column.name, column.dtype, (column.width,) if column.width else ()) for column in columns])
    part_rows = max(1, _PART_BYTES // record.itemsize)
    bounds = keys[::part_rows].copy()
    count = len(keys)
    del keys
    with tempfile.TemporaryFile(dir=folder) as file:
        _divide(blocks(), bounds, part_rows, record, file.fileno())
        for first in range(0, count, part_rows):
            records = np.empty(min(part_rows, count - first), record)
            disk.read_into(file.fileno(), first * record.itemsize, records.view(np.uint8))
            records = records[np.argsort(records[columns[0].name])]
            yield [np.ascontiguousarray(records[column.name]) for column in columns]


def _divide(blocks: Iterable[Arrays], bounds: np.ndarray, part_rows: int, record: np.dtype, fd: int) -> None:
    """Write each row to the range of its key. Range i begins at row ``i * part_rows`` of the file."""
    ends = np.arange(len(bounds)) * part_rows  # next free row of each range
    for arrays in blocks:
        ranges = np.searchsorted(bounds, arrays[0], "right") - 1
        if len(bounds) < 1 << 16:
            ranges = ranges.astype(np.uint16)  # numpy sorts such numbers several times as fast
        records = np.empty(len(ranges), record)
        order = np.argsort(ranges, kind="stable")
        for name, values in zip(record.names, arrays):
            records[name] = values[order]
        counts = np.bincount(ranges, minlength=len(bounds))
        start = 0
        for number in np.flatnonzero(counts).tolist():
            size = int(counts[number])
            _write_at(fd, int(ends[number]) * record.itemsize, records[start:start + size])
            ends[number] += size
            start += size


def _write_at(fd: int, offset: int, records: np.ndarray) -> None:
    rest = memoryview(records.view(np.uint8))
    while rest.nbytes:
        written = os.pwrite(fd, rest, offset)
        rest = rest[written:]
        offset += written


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
