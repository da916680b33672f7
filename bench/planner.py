"""The planner of a table worker: the worker's own class, on memory of its own and without rows."""
from collections import deque
from typing import Callable, Deque, List, Tuple

import numpy as np

from ascpipe.kernels import entry
from ascpipe.kernels.hashing import spread_of
from ascpipe.layout import structs
from ascpipe.layout.words import PLAN_OK, TRAINED
from ascpipe.tables.records import Batch, Record, Truth
from ascpipe.tables.table import Table
from bench import workloads

PLAN_AHEAD = 2  #: plans that stand while the next one is made
WINDOW = 4  #: batches touched beyond the one being planned
_FILLED_AT_ONCE = 10 ** 6


def empty_truth(keys: int, device_rows: int, *, home_rows: int) -> Truth:
    """Memory of a table with room for so many keys; ``home_rows`` of 0: it lives on the device alone."""
    headers = np.zeros(1, structs.TABLE)
    header = headers[0]
    header["device_rows"], header["home_capacity"], header["entry_capacity"] = device_rows, home_rows, keys
    header["access_threshold"] = header["eviction_threshold"] = -1
    header["counting"] = header["faae_coefficient"] = 1
    header["entries_ready"], header["homes_ready"] = keys, home_rows
    entries = np.zeros((keys, entry.INT64_COLUMNS), np.int64)
    return Truth(header, headers.view(np.int64), entries, entries.view(np.int32),
                 np.full(device_rows, -1, np.int32), _has_memory, _has_memory)


def _has_memory(count: int) -> bool:
    return True


def batch_of(number: int, unique: np.ndarray, occurrences: np.ndarray) -> Batch:
    """A batch whose record arrays are its own."""
    def ints() -> np.ndarray:
        return np.zeros(len(unique), np.int32)

    return Batch(ints(), ints(), ints(), np.zeros(len(unique), np.int64), ints(), ints(), ints(), ints(), ints(),
                 number, number + 1, 0, unique, occurrences)


def planned(table: Table, batch: Batch) -> Record:
    """The plan of a batch whose keys are touched. Raises ``RuntimeError`` if there is none."""
    record = table.plan(batch, len(batch.held))
    if record.status != PLAN_OK:
        raise RuntimeError("batch {} has no plan: status {}, need {}".format(batch.number, record.status, record.need))
    return record


def touch(table: Table, batch: Batch) -> None:
    """Find or name the entries of a batch. Raises ``RuntimeError`` if there is no room."""
    if not table.touch(batch.unique, batch.number, batch.held):
        raise RuntimeError("batch {} found no entries".format(batch.number))


def finish(table: Table, record: Record) -> None:
    """As a worker does when the step of a batch is done."""
    table.assign(record, record.number + 1)
    table.forget(record)
    table.leave(record.held, record.number)


class Planner:
    """A table that knows all of ``keys`` keys: ``workloads.scramble`` of 0, 1, 2, ...

    Args:
        keys: trained ones.
        device_rows: rows that the device holds; those of the first keys are there.
        at_home: every key has a row at home; else ``device_rows`` is ``keys``.
    """

    def __init__(self, keys: int, device_rows: int, *, at_home: bool) -> None:
        truth = empty_truth(keys, device_rows, home_rows=keys if at_home else 0)
        for start in range(0, keys, _FILLED_AT_ONCE):
            number = np.arange(start, min(start + _FILLED_AT_ONCE, keys))
            part = slice(start, start + len(number))
            truth.entries[part, entry.KEY] = workloads.scramble(number)
            truth.entries32[part, entry.STATE] = TRAINED
            truth.entries32[part, entry.HOME] = number if at_home else -1
            truth.entries32[part, entry.SLOT] = np.where(number < device_rows, number, -1)
        truth.slot_entries[:] = np.arange(device_rows)
        truth.header["entries_used"] = keys
        self._table = Table(truth, spread_of(workloads.HASH_SEED))
        self._table.rebuild((), ())
        self._next = 0
        self._touched: Deque[Batch] = deque()
        self._standing: Deque[Record] = deque()

    def step(self, batches: List[np.ndarray]) -> Callable[[], object]:
        """A call that takes one more batch in for each of ``batches``, plans one, and finishes one."""
        arrays: List[Tuple[np.ndarray, np.ndarray]] = [(unique, np.ones(len(unique), np.int32)) for unique in batches]

        def call() -> None:
            for unique, occurrences in arrays:
                self._touched.append(batch_of(self._next, unique, occurrences))
                touch(self._table, self._touched[-1])
                self._next += 1
                if len(self._touched) > WINDOW:
                    self._standing.append(planned(self._table, self._touched.popleft()))
                if len(self._standing) > PLAN_AHEAD:
                    finish(self._table, self._standing.popleft())

        return call
