"""What a table is given and what it makes of it: its shared memory, a batch, the record of a plan."""
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple

import numpy as np

from ascpipe.layout.words import PLAN_OK


class Truth(NamedTuple):
    """The shared memory of a table.

    Attributes:
        header: the TABLE fields by name; ``entries_used`` is written here, and what cuts change.
        header_longs: int64[64]; the same memory as ``header``.
        entries, entries32: int64[capacity, 6], int32[capacity, 12]; the same memory.
        slot_entries: int32[device rows]; entry of each slot, -1 = empty.
        ready_entries, ready_homes: give memory to so many entries or home rows; False if there is none.
    """

    header: Any
    header_longs: np.ndarray
    entries: np.ndarray
    entries32: np.ndarray
    slot_entries: np.ndarray
    ready_entries: Callable[[int], bool]
    ready_homes: Callable[[int], bool]


@dataclass
class RecordArrays:
    """Where a record stands: the arrays of one part of a frame, or their first cells.

    Attributes:
        held, slots, homes, counts, frequencies: int32[n], int32[n], int32[n], int64[n], int32[n]; entry number
            and absolute new values of each key; a slot or home row of -1 leaves what was there.
        move_in: int32[m]; indexes of the keys that get a slot or a home row: first those whose rows are new,
            then those whose rows come from home.
        out_slots, out_entries, out_homes: int32[k]; victims; the last k of ``move_in`` get their slots.
    """

    held: np.ndarray
    slots: np.ndarray
    homes: np.ndarray
    counts: np.ndarray
    frequencies: np.ndarray
    move_in: np.ndarray
    out_slots: np.ndarray
    out_entries: np.ndarray
    out_homes: np.ndarray


@dataclass
class Batch(RecordArrays):
    """The distinct keys of one frame for one table; all arrays have n cells, those of its record to be filled.

    Attributes:
        number: of the frame.
        sequence: of the ticket, as use is scored by it.
        timestamp: of the batch, 0 = it has none.
        unique, occurrences: int64[n], int32[n]; distinct keys in order of first appearance, how often each occurs.
    """

    number: int
    sequence: int
    timestamp: int
    unique: np.ndarray
    occurrences: np.ndarray

    def record(self, keys: int, moves: int, outs: int, *, rows: int, time: int, fresh: int = 0, status: int = PLAN_OK,
               need: int = 0, admitted: int = 0) -> "Record":
        """The record that stands in the first cells of these arrays.

        Args:
            keys, moves, outs: how many keys it names, rows that move in, victims.
            rows, time, fresh, status, need, admitted: as a Record has them.
        """
        return Record(
            self.held[:keys], self.slots[:keys], self.homes[:keys], self.counts[:keys], self.frequencies[:keys],
            self.move_in[:moves], self.out_slots[:outs], self.out_entries[:outs], self.out_homes[:outs], self.number,
            fresh, status, need, rows, time, admitted)


@dataclass
class Record(RecordArrays):
    """What a plan leads to: absolute values of entries, and the rows that move.

    Attributes:
        number: of the frame.
        fresh: keys whose rows are new.
        status: PLAN_OK or the reason why there is no plan; the arrays are empty then.
        need: with another status, what the batch needs.
        rows, time: of the table after it.
        admitted: keys that have a row in this batch.
    """

    number: int
    fresh: int
    status: int
    need: int
    rows: int
    time: int
    admitted: int

    @property
    def moved(self) -> np.ndarray:
        """Slots of the keys that get one, in the order of ``move_in``."""
        return self.slots[self.move_in]

    @property
    def taken(self) -> np.ndarray:
        """Of these, the slots that were free before."""
        return self.slots[self.move_in[:len(self.move_in) - len(self.out_slots)]]
