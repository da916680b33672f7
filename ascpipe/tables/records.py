"""Types of a table: its shared memory, a batch, and a pending record."""
from typing import Any, Callable, NamedTuple

import numpy as np

from ascpipe.kernels.records import Record


class Truth(NamedTuple):
    """The shared memory of a table.

    Attributes:
        header: the TABLE fields by name; written here: ``entries_used`` and fields that cuts change.
        header_at: address of the same memory.
        entries: ENTRY[capacity].
        slot_entries: int32[device rows]; entry of each slot, -1 if empty.
        disk_table, requests: the DISK_TABLE fields by name, REQUEST[home rows], or None if no row is stored on disk.
        ready_entries, ready_homes: allocate memory for a number of entries or home rows; return False if out of memory.
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
        number: number of the frame.
        sequence: sequence number of the ticket, for the usage score.
        timestamp: timestamp of the batch, or 0 if it has none.
        unique, occurrences: int64[n], int32[n]; distinct keys in order of first appearance, and their counts.
        record: output record for n keys.
    """

    number: int
    sequence: int
    timestamp: int
    unique: np.ndarray
    occurrences: np.ndarray
    record: Record


class Pending(NamedTuple):
    """A record that is not yet retired.

    Attributes:
        number: number of the frame.
        record: its arrays.
        fresh: number of keys with new rows.
        rows, time: values of the table after the record.
    """

    number: int
    record: Record
    fresh: int
    rows: int
    time: int


def first_keys(record: Record, keys: int) -> Record:
    """Return a record of the first ``keys`` keys, in which no row moves."""
    return Record(*[array[:keys] for array in record[:5]], *[array[:0] for array in record[5:]])
