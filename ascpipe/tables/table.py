"""One table as its worker sees it: truth, view, window, free slots.

*Truth* (``entries``, ``slot_entries``) is the state after the last retired batch and belongs to the
caller, who keeps it in shared memory.  Everything else here is private and derived: the key index, the
window masks, the free entries, the free slots, and the *view*, which is the truth as it will be after the
newest record made so far.  ``rebuild`` makes all of it anew from truth, window and records.

Records are made here and stored by the caller; a record holds absolute values only, so assigning it twice
is assigning it once.
"""
from typing import Iterable, NamedTuple, Tuple

import numpy as np

from ascpipe.kernels.entry import KEY, SLOT, STATE
from ascpipe.kernels.free_slots import FreeSlots
from ascpipe.kernels.index import find_keys, index_cells, rebuild_index, remove_keys
from ascpipe.kernels.plan import assign_to_view, draft_count_only, draft_record, place_missing, reset_view
from ascpipe.kernels.retire import assign_to_truth, resolve_keys
from ascpipe.kernels.touch import collect_free, leave_window, mark_window, touch_keys
from ascpipe.words import FREE, PLAN_OK, PLAN_TABLE_FULL, TRAINED


class Batch(NamedTuple):
    """The distinct keys of one batch for one table, and the cells where its record goes; all [n].

    Attributes:
        unique: int64; distinct keys in order of first appearance.
        occurrences: int32; how often each occurs.
        held: int32; their entry numbers.
        slots, counts, frequencies, move_in: int32, int64, int32, int32; the record.
    """

    unique: np.ndarray
    occurrences: np.ndarray
    held: np.ndarray
    slots: np.ndarray
    counts: np.ndarray
    frequencies: np.ndarray
    move_in: np.ndarray


class Record(NamedTuple):
    """What a plan leads to: absolute values of entries, and the slots it takes.

    Attributes:
        held, slots, counts, frequencies: int32[n], int32[n], int64[n], int32[n].
        taken: int32[m]; slots that were free before.
        status: PLAN_OK or the reason why there is no plan; the arrays are empty then.
        rows: rows of the table after it; with PLAN_TABLE_FULL, rows that would be needed.
    """

    held: np.ndarray
    slots: np.ndarray
    counts: np.ndarray
    frequencies: np.ndarray
    taken: np.ndarray
    status: int
    rows: int


_NO_SLOTS = np.zeros(0, np.int32)
_NO_COUNTS = np.zeros(0, np.int64)


class Table:
    """Keys, slots and window of one table; ``rebuild`` comes before anything else.

    Args:
        entries: int64[capacity, 6]; truth, owned by the caller.
        entries32: int32[capacity, 12]; the same memory.
        slot_entries: int32[device rows]; truth: entry of each slot, -1 = empty.
    """

    def __init__(self, entries: np.ndarray, entries32: np.ndarray, slot_entries: np.ndarray) -> None:
        capacity = len(entries)
        self._entries, self._entries32, self._slot_entries = entries, entries32, slot_entries
        self._masks = np.zeros(capacity, np.uint64)
        self._free_entries = np.zeros(capacity, np.int32)
        self._free_entry_count = np.zeros(1, np.int64)
        cells = index_cells(capacity)
        self._index_keys = np.zeros(cells, np.int64)
        self._index_entries = np.full(cells, -1, np.int32)
        self._view_slots = np.zeros(capacity, np.int32)
        self._view_counts = np.zeros(capacity, np.int64)
        self._view_frequencies = np.zeros(capacity, np.int32)
        self._free_slots = FreeSlots(len(slot_entries))
        self._scratch = np.zeros(0, np.int32)
        self._freed_keys = np.zeros(0, np.int64)
        self.rows = 0  #: of the view: keys that have a row

    @property
    def device_rows(self) -> int:
        return len(self._slot_entries)

    # ---- window

    def touch(self, unique: np.ndarray, place: int, out_held: np.ndarray) -> bool:
        """Find or name the entries of a frame's keys and keep them while it is in the window.

        Args:
            unique: int64[n]; distinct keys.
            place: the frame's place in its ring, 0 to 63.
            out_held: int32[n]; receives the entry numbers.

        Returns:
            False if too few entries are free; then nothing has changed.
        """
        if touch_keys(unique, out_held, self._index_keys, self._index_entries, self._free_entries,
                      self._free_entry_count, self._entries, self._entries32) < 0:
            return False
        mark_window(out_held, self._masks, _bit(place))
        return True

    def leave(self, held: np.ndarray, place: int) -> None:
        """Let go of a frame that has been retired.

        Args:
            held: int32[n]; its entry numbers, in memory that nobody reuses meanwhile.
            place: as in ``touch``.
        """
        self._make_room(len(held))
        freed = leave_window(held, self._masks, _bit(place), self._entries, self._entries32, self._freed_keys,
                             self._free_entries, self._free_entry_count)
        remove_keys(self._freed_keys, freed, self._index_keys, self._index_entries)

    # ---- records

    def plan(self, batch: Batch, held_count: int) -> Record:
        """Make the record of a batch that stands upon the view, and move the view on.

        Args:
            batch: the batch; its record arrays are filled.
            held_count: entries that ``touch`` stored: all, or none if they did not fit.

        Returns:
            The record.  With PLAN_TABLE_FULL nothing has changed.
        """
        n = len(batch.unique)
        if held_count < n:
            self._make_room(n)
            unknown = find_keys(batch.unique, n, self._index_keys, self._index_entries, self._scratch[:n])
            return self._table_full(self.rows + unknown)
        missing = draft_record(batch.held, batch.occurrences, self._view_slots, self._view_counts,
                               self._view_frequencies, batch.slots, batch.counts, batch.frequencies, batch.move_in)
        if missing > self._free_slots.count:
            return self._table_full(self.rows + missing)
        self._make_room(missing)
        taken = self._scratch[:missing]
        self._free_slots.take_lowest(taken)
        place_missing(batch.move_in[:missing], taken, batch.slots)
        record = Record(batch.held, batch.slots, batch.counts, batch.frequencies, taken.copy(), PLAN_OK,
                        self.rows + missing)
        self._assign(record)
        return record

    def take_back(self, revoked: Record, standing: Iterable[Record]) -> None:
        """Undo the newest record in the view; the truth never knew it.

        Args:
            revoked: the newest record.
            standing: the other records that are not retired, oldest first.
        """
        if revoked.status != PLAN_OK:
            return
        rows = self.rows - len(revoked.taken)
        reset_view(revoked.held, self._entries32, self._entries, self._view_slots, self._view_counts,
                   self._view_frequencies)
        for record in standing:
            self._assign(record)
        self._free_slots.release(revoked.taken)
        self.rows = rows

    def count_only(self, batch: Batch, held_count: int) -> Record:
        """Make the record of a trained batch that this table took no part in, and move the view on.

        Args:
            batch: the batch; its record arrays are filled, and ``held`` is compacted to the known keys if
                ``touch`` had not stored all of them.
            held_count: as in ``plan``.

        Returns:
            The record; it takes no slots.  It stands upon the truth: no other record may be pending.
        """
        n = len(batch.unique)
        occurrences = batch.occurrences
        if held_count < n:
            self._make_room(n)
            found = self._scratch[:n]
            find_keys(batch.unique, n, self._index_keys, self._index_entries, found)
            known = found >= 0
            occurrences, n = batch.occurrences[known], int(known.sum())
            batch.held[:n] = found[known]
        record = Record(batch.held[:n], batch.slots[:n], batch.counts[:n], batch.frequencies[:n], _NO_SLOTS, PLAN_OK,
                        self.rows)
        draft_count_only(record.held, occurrences, self._entries32, self._entries, record.slots, record.counts,
                         record.frequencies)
        self._assign(record)
        return record

    def retire(self, record: Record, ticket: int) -> None:
        """Assign a record to the truth."""
        assign_to_truth(record.held, record.slots, record.counts, record.frequencies, ticket, self._entries,
                        self._entries32, self._slot_entries)

    # ---- reading and cuts

    def resolve(self, unique: np.ndarray, out_slots: np.ndarray) -> int:
        """Write the slot of each key as the truth has it, -1 for keys without a row; returns how many have one.

        Args:
            unique: int64[n]; distinct keys.
            out_slots: int32[n].
        """
        self._make_room(len(unique))
        return int(resolve_keys(unique, out_slots, self._index_keys, self._index_entries, self._entries32,
                                self._scratch))

    def reset(self) -> None:
        """Forget every key.  Idempotent; no record may be pending, and touched frames must be touched again."""
        self._entries32[:, STATE] = FREE
        self._slot_entries[:] = -1
        self.rebuild((), ())

    # ---- restart

    def rebuild(self, window: Iterable[Tuple[np.ndarray, int]], records: Iterable[Record]) -> None:
        """Derive everything private from the truth.

        Args:
            window: (held, place) of each touched frame that is not retired.
            records: records that are not retired and may not be taken back, oldest first.
        """
        self._masks[:] = 0
        for held, place in window:
            mark_window(held, self._masks, _bit(place))
        self._free_entry_count[0] = collect_free(self._masks, self._entries32, self._free_entries)
        live = self._entries32[:, STATE] != FREE
        rebuild_index(self._entries[:, KEY], live, self._index_keys, self._index_entries)
        everything = np.arange(len(self._entries), dtype=np.int32)
        reset_view(everything, self._entries32, self._entries, self._view_slots, self._view_counts,
                   self._view_frequencies)
        self._view_slots[~live], self._view_counts[~live], self._view_frequencies[~live] = -1, 0, 0
        self._free_slots.rebuild(self._slot_entries)
        self.rows = int(np.count_nonzero((self._entries32[:, STATE] == TRAINED) & (self._entries32[:, SLOT] >= 0)))
        for record in records:
            # a worker that died while it retired may have given some of its slots to the truth already
            self._free_slots.take(record.taken[self._slot_entries[record.taken] < 0])
            self._assign(record)

    # ----

    def _assign(self, record: Record) -> None:
        assign_to_view(record.held, record.slots, record.counts, record.frequencies, self._view_slots,
                       self._view_counts, self._view_frequencies)
        self.rows = record.rows

    def _table_full(self, need: int) -> Record:
        return Record(_NO_SLOTS, _NO_SLOTS, _NO_COUNTS, _NO_SLOTS, _NO_SLOTS, PLAN_TABLE_FULL, need)

    def _make_room(self, n: int) -> None:
        if len(self._scratch) < n:
            self._scratch = np.zeros(2 * n, np.int32)
            self._freed_keys = np.zeros(2 * n, np.int64)


def _bit(place: int) -> np.uint64:
    return np.uint64(1 << place)
