"""Types for a table's shared memory, batches and pending records."""
from typing import Any, Callable, NamedTuple

import numpy as np

from ascpipe.kernels.records import Record


class Truth(NamedTuple):
    """Shared memory of a table.

    Attributes:
        header: TABLE, with its fields by name. This package writes ``entries_used`` and fields that cuts change.
        header_at: address of the header.
        entries: ENTRY[capacity].
        slot_entries: int32[device rows]; entry of each slot, or -1.
        disk_table, requests: DISK_TABLE with its fields by name, and REQUEST[home rows]. Both are None if no rows are
            on disk.
        ready_entries, ready_homes: functions that allocate memory for a number of entries or home rows. They return
            False if memory is exhausted.
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
    """Distinct keys of one frame for one table.

    Attributes:
        number: number of the frame.
        sequence: sequence number of the ticket, for the frequency.
        timestamp: timestamp of the batch, or 0 if it has none.
        unique, occurrences: int64[n], int32[n]; distinct keys in order of first appearance, and their occurrences.
        record: output record for n keys.
    """

    number: int
    sequence: int
    timestamp: int
    unique: np.ndarray
    occurrences: np.ndarray
    record: Record


class Pending(NamedTuple):
    """Record that is not retired yet.

    Attributes:
        number: number of the frame.
        record: arrays of the record.
        fresh: number of keys with new rows.
        rows, time: number of rows and time of the table after the record.
    """

    number: int
    record: Record
    fresh: int
    rows: int
    time: int


def first_keys(record: Record, keys: int) -> Record:
    """Return a record that contains the first ``keys`` keys of ``record`` but no row moves."""
    return Record(*[array[:keys] for array in record[:5]], *[array[:0] for array in record[5:]])
