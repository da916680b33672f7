"""Declares the arguments and results of a table: its shared memory, a batch, a record that is pending."""
from typing import Any, Callable, NamedTuple

import numpy as np

from ascpipe.kernels.records import Record


class Truth(NamedTuple):
    """The shared memory of a table.

    Attributes:
        header: the TABLE fields by name; ``entries_used`` is written here, and what cuts change.
        header_at: address of the same memory.
        entries: ENTRY[capacity].
        slot_entries: int32[device rows]; entry of each slot, -1 = empty.
        disk_table, requests: the DISK_TABLE fields by name, REQUEST[home rows]; None where no row goes to disk.
        ready_entries, ready_homes: ensure memory for a number of entries or home rows; return False when out of memory.
    """

    header: Any
    header_at: int
    entries: np.ndarray
    slot_entries: np.ndarray
    ready_entries: Callable[[int], bool]
    ready_homes: Callable[[int], bool]
    disk_table: Any = None
    requests: Any = None


class Batch(NamedTuple):
    """The distinct keys of one frame for one table.

    Attributes:
        number: of the frame.
        sequence: of the ticket, as use is scored by it.
        timestamp: of the batch, 0 = it has none.
        unique, occurrences: int64[n], int32[n]; distinct keys in order of first appearance, how often each occurs.
        record: of n keys, to be filled.
    """

    number: int
    sequence: int
    timestamp: int
    unique: np.ndarray
    occurrences: np.ndarray
    record: Record


class Pending(NamedTuple):
    """A record that is made and not retired.

    Attributes:
        number: of the frame.
        record: its arrays.
        fresh: keys whose rows are new.
        rows, time: of the table after it.
    """

    number: int
    record: Record
    fresh: int
    rows: int
    time: int


def first_keys(record: Record, keys: int) -> Record:
    """Return the first keys of a record in which no row moves."""
    return Record(*[array[:keys] for array in record[:5]], *[array[:0] for array in record[5:]])
