"""State of one table in its table worker: truth, view, window, free slots and home rows.

The *truth* is the table after the last retired batch, in shared memory that the caller owns. All other state is private
and derived: key index, window, free entries, slots and home rows, victim order, and the *view*. The view is the table
after the newest record. ``rebuild`` derives this state from truth, window and records. Private arrays reserve address
space for the maximum size, and occupy memory only for items in use.

The steps of a batch are compiled (``ascpipe.kernels.batch_steps``) and access this state through the *planner* of the
table, a struct of numbers and addresses. This module owns the memory, provides resources that a step lacks
(``provide``), and implements rare operations. Records hold absolute values only, so assigning a record is idempotent.
"""
from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy as np

from ascpipe.kernels import batch_steps
from ascpipe.kernels import window as frames
from ascpipe.kernels.asks import LACKS_CHANGES, LACKS_ENTRIES, LACKS_HOMES, LACKS_SCRATCH
from ascpipe.kernels.free_slots import free_slot_words, rebuild_free_slots
from ascpipe.kernels.hashing import Spread
from ascpipe.kernels.index import find_keys
from ascpipe.kernels.plan import draft_count_only
from ascpipe.kernels.planner_memory import PLANNER
from ascpipe.kernels.records import CHANGE, ORDER, ROW, View, late_room
from ascpipe.kernels.retire import evict_entries, resolve_entries
from ascpipe.kernels.view import clear_rows, derive_view, move_changes
from ascpipe.layout.structs import MAX_FRAMES
from ascpipe.layout.words import FREE, HOME_NONE
from ascpipe.tables import lazy_arrays
from ascpipe.tables.homes import free_homes
from ascpipe.tables.key_index import KeyIndex
from ascpipe.tables.records import Batch, Pending, Truth, first_keys
from ascpipe.tables.tier import Tier

_FIRST_CHANGES = 1024
_LEAST_ROWS = 1024
_NO_INTS = np.zeros(0, np.int32)


class Table:
    """State of one table in its table worker. The caller must call ``rebuild`` first.

    Args:
        truth: shared memory of the table.
        spread: hash seed that determines the index lines of keys. It does not affect results.

    Attributes:
        planner: PLANNER with the private numbers and addresses for compiled steps.
        planner_at: address of the planner.
        tier: state of home rows and rows on disk, or None if no row is stored on disk.
    """

    def __init__(self, truth: Truth, spread: Spread) -> None:
        self._truth = truth
        self._header = truth.header
        self._capacity = len(truth.entries)
        self._device_rows = len(truth.slot_entries)
        self._home_rows = int(truth.header["home_capacity"])
        planner = np.zeros(1, PLANNER)
        self.planner: Any = planner[0]
        self.planner_at = int(planner.ctypes.data)
        self._memory: Dict[str, np.ndarray] = {"": planner}  # planner field with the address -> array
        self._index = KeyIndex(spread, self._capacity)
        self._rows, self._row_of = (lazy_arrays.zeros(self._capacity, kind) for kind in (ROW, np.int32))
        self._free_entries = lazy_arrays.zeros(self._capacity, np.int32)
        self._slot_words = np.zeros(free_slot_words(self._device_rows), np.uint64)
        for name, value in (("capacity", self._capacity), ("device_rows", self._device_rows),
                            ("home_rows", self._home_rows), ("slot_words", len(self._slot_words)),
                            ("header_at", truth.header_at), ("images_saved_for", -1),
                            ("least_rows", _LEAST_ROWS)):
            self.planner[name] = value
        self._lend("entries_at", truth.entries)
        self._lend("slot_entries_at", truth.slot_entries)
        self._lend("view_at", self._rows)
        self._lend("row_of_at", self._row_of)
        self._lend("free_entries_at", self._free_entries)
        self._lend("slot_words_at", self._slot_words)
        if self._home_rows and self._device_rows:
            self._lend("slot_owners_at", np.full(self._device_rows, -1, np.int32))
        self._make_changes(_FIRST_CHANGES)
        self._make_scratch(0)
        self._lend("index_at", self._index.index.extent)
        self.tier = Tier(self.planner, truth) if truth.disk_table is not None else None
        if self.tier is not None:
            self._lend("free_homes_at", lazy_arrays.zeros(self._home_rows, np.int32))
            self.planner["home_stack_room"] = self._home_rows

    @property
    def rows(self) -> int:
        """Return the number of keys in the view that have a row."""
        return int(self.planner["rows"])

    @property
    def time(self) -> int:
        """Return the greatest timestamp in the view."""
        return int(self.planner["time"])

    def nbytes(self, field: str) -> int:
        """Return the size in bytes of the array whose address is in ``planner[field]``, including unused memory."""
        return self._memory[field].nbytes

    # ---- resources that compiled steps lack

    def provide(self, lacks: int, n: int) -> bool:
        """Provide the resource that a step lacks for a frame of n keys.

        Args:
            lacks: a value from LACKS_SCRATCH to LACKS_VICTIMS of ``ascpipe.kernels.asks``.
            n: number of distinct keys.

        Returns:
            False if there are too few free entries and no memory for more entries. The step reports other shortages.
        """
        if lacks == LACKS_ENTRIES:
            return self._make_entries(int(self.planner["missing"]))
        if lacks == LACKS_SCRATCH:
            self._make_scratch(2 * n)
        elif lacks == LACKS_CHANGES:
            self._make_changes(2 * n)
        elif lacks == LACKS_HOMES:
            self.planner["home_memory_exhausted"] = not self._truth.ready_homes(int(self.planner["home_reach"]))
            if self.tier is not None and self.planner["home_memory_exhausted"]:
                self.planner["home_rows"] = self._header["homes_ready"]  # other rows are stored on disk
        else:
            self._make_victims()
        return True

    def _make_entries(self, missing: int) -> bool:
        reach = int(self._header["entries_used"]) + max(0, missing - int(self.planner["free_entries"]))
        return reach <= self._capacity and self._truth.ready_entries(reach)

    def _make_changes(self, n: int) -> None:
        """Ensure that the ring of entry changes has room for n more changes."""
        wanted = int(self.planner["next_change"] - self.planner["oldest_change"]) + n
        if wanted > self.planner["change_room"]:
            before = self._memory.get("changes_at")
            room = 1 << (wanted - 1).bit_length()
            self._lend("changes_at", np.zeros(room, CHANGE))
            self.planner["change_room"] = room
            if before is not None:
                move_changes(self.planner, before, self._memory["changes_at"])

    def _make_scratch(self, n: int) -> None:
        """Allocate scratch memory for frames with n keys and n victims. Copy the lists of frames in the window."""
        before = self._memory.get("lists_at")
        lists = lazy_arrays.zeros(MAX_FRAMES * 2 * n, np.int32).reshape(MAX_FRAMES, 2 * n)
        if before is not None:
            for position, count in enumerate(self.planner["listed_count"].tolist()):
                lists[position, :count] = before[position, :count]
        self._lend("lists_at", lists)
        self._lend("scratch_at", np.zeros(n, np.int32))
        self._lend("lists_scratch_at", np.zeros(4 * n, np.int32))
        self._lend("freed_keys_at", np.zeros(2 * n, np.int64))
        self.planner["scratch_room"] = n
        self.planner["list_room"] = 2 * n

    def _make_victims(self) -> None:
        rows = self._device_rows
        self._lend("order_at", np.zeros(1, ORDER))
        self._lend("scores_at", lazy_arrays.zeros(rows + 1, np.int32))
        self._lend("numbers_at", lazy_arrays.zeros(2 * rows, np.int64))
        self._lend("late_at", np.empty(2 * late_room(rows), np.int64))  # memory is allocated at the first write

    def _lend(self, field: str, array: np.ndarray) -> None:
        """Keep an array alive, and store its address in the planner."""
        self._memory[field] = array
        self.planner[field] = array.ctypes.data

    # ---- window

    def touch_nothing(self, number: int) -> None:
        """Add a frame that holds no entries to the window."""
        self._take_into_window(number, _NO_INTS)

    def _take_into_window(self, number: int, held: np.ndarray) -> None:
        if len(held) > self.planner["scratch_room"]:
            self._make_scratch(2 * len(held))
        frames.take_into_window(self.planner, number, held)

    def leave(self, number: int) -> None:
        """Remove a retired frame from the window. The window then releases the entries of the frame."""
        frames.leave(self.planner, number)

    # ---- records

    @property
    def pending(self) -> List[int]:
        """Return the numbers of the frames whose records were applied to the view but are not retired, oldest first."""
        return [int(self.planner["record_frame"][record % MAX_FRAMES])
                for record in range(int(self.planner["first_record"]), int(self.planner["next_record"]))]

    def take_back(self, revoked: Pending) -> None:
        """Remove the newest record from the view. The record must not have been assigned to the truth."""
        batch_steps.take_back(self.planner, revoked.number, revoked.record, revoked.fresh)

    def count_only(self, batch: Batch, held_count: int) -> Pending:
        """Create the record of a trained batch in which this table was not used, and apply the record to the view.

        Args:
            batch: batch whose record is filled. If a touch did not store all entry numbers, the record has
                only the known keys.
            held_count: number of entries that a touch stored. It is 0 if the entries did not fit.

        Returns:
            The record. No rows move. The record is based on the truth, so no other record may be pending.
        """
        n = len(batch.unique)
        occurrences = batch.occurrences
        if held_count < n:
            found = self._find(batch.unique)
            known = found >= 0
            occurrences = batch.occurrences[known]
            n = int(known.sum())
            batch.record.held[:n] = found[known]
        record = first_keys(batch.record, n)
        draft_count_only(batch_steps.rules_of(self.planner, batch.sequence), occurrences, self._truth.entries, record)
        counted = Pending(batch.number, record, 0, self.rows, max(self.time, batch.timestamp))
        self._put_on(counted)
        frames.mark_not_to_plan(self.planner, batch.number)
        return counted

    def assign(self, done: Pending, ticket: int) -> None:
        """Assign a record to the truth. The method is idempotent."""
        batch_steps.assign(self.planner, done.number, done.record, ticket, done.time)

    def _put_on(self, pending: Pending) -> None:
        """Apply a record to the view."""
        if len(pending.record.held) > self.planner["scratch_room"]:
            self._make_scratch(2 * len(pending.record.held))
        self._make_changes(len(pending.record.held) + len(pending.record.out_slots))
        batch_steps.put_on(self.planner, pending.number, pending.record, pending.rows, pending.time)

    def _view(self) -> View:
        return View(self._rows, self._memory["changes_at"], self._row_of)

    def _find(self, keys: np.ndarray) -> np.ndarray:
        """Return int32[n]: the entry number of each key, or -1 for a key without an entry."""
        found = np.empty(len(keys), np.int32)
        find_keys(keys, len(keys), self._index.index, found)
        return found

    # ---- reading and cuts

    def resolve(self, unique: np.ndarray, out_slots: np.ndarray, out_disk_slots: np.ndarray,
                out_generations: np.ndarray) -> None:
        """Find the row of each key in the truth, and write the locations of the rows to the output arrays.

        The location is a slot, the code of a home row, SLOT_NONE or SLOT_DISK.

        Args:
            unique, out_slots: int64[n], int32[n]; distinct keys, and the locations.
            out_disk_slots, out_generations: int32[n]; written only for rows on disk.
        """
        resolve_entries(self._find(unique), int(self._header["access_threshold"]), self._truth.entries, out_slots,
                        out_disk_slots, out_generations)

    def reset(self) -> None:
        """Remove all keys. The method is idempotent. No record may be pending. Frames must then be touched again."""
        self.empty()
        self.rebuild((), ())

    def empty(self) -> None:
        """Remove all keys from the truth, but not from the private state. The caller must then call ``rebuild``."""
        used = int(self._header["entries_used"])
        if self.tier is not None:  # the new generation invalidates earlier requests, even after an interruption
            self._truth.entries["generation"][:used] += 1
            self._truth.entries["home"][:used] = HOME_NONE
        self._truth.entries["state"][:used] = FREE
        self._truth.slot_entries[:] = -1
        self._header["time"] = 0
        self._header["entries_used"] = 0  # stored last, after the states were reset

    def set_threshold(self, threshold: int) -> None:
        """Change the access threshold. A threshold of 0 stops counting. A table without admission is not changed."""
        if self._header["access_threshold"] < 0:
            return
        if threshold > 0:
            self._header["access_threshold"] = threshold
        self._header["counting"] = int(threshold > 0)

    def evict(self, age: int) -> int:
        """Evict all keys that were not used for ``age``. Return the number of evicted keys. No record may be pending.
        The method is idempotent.

        Frames stay touched. While a frame holds the entry of an evicted key, the entry is NAMED.
        """
        truth = self._truth
        dropped = int(evict_entries(int(self._header["entries_used"]), int(self._header["time"]), age, self._view(),
                                    truth.entries, truth.slot_entries))
        self.rebuild(None, ())
        return dropped

    # ---- restart

    def index_entries(self, count: int) -> None:
        """Index the first ``count`` entries, all of which are in use. Then call ``rebuild`` with ``is_indexed``."""
        self._index.rebuild(count, count, self._truth.entries)

    def rebuild(self, window: Optional[Iterable[Tuple[int, np.ndarray]]], pending: Iterable[Pending], *,
                is_indexed: bool = False) -> None:
        """Derive all private state from the truth after the last assigned record.

        Args:
            window: (number, held) of each touched frame that is not retired, oldest first. If None, the window is kept.
            pending: records that are neither retired nor revocable, oldest first.
            is_indexed: whether the index already matches the entries.
        """
        planner = self.planner
        pending = list(pending)
        used = int(self._header["entries_used"])
        planner["victims_filled"] = 0
        if window is None:
            planner["unplanned"] = planner["touched"]
        else:
            clear_rows(planner, self._view())
            for number, held in window:
                self._take_into_window(number, held)
        planner["free_entries"], planner["rows"] = derive_view(
            planner, self._view(), used, self._truth.entries, self._free_entries)
        if not is_indexed:
            self._index.rebuild(used - int(planner["free_entries"]), used, self._truth.entries)
        planner["time"] = self._header["time"]
        if self.tier is None:
            self._rebuild_homes(used, pending)
        else:
            self.tier.derive(used)
        self._rebuild_slots(pending)
        for one in pending:
            frames.mark_not_to_plan(planner, one.number)
            self._put_on(one)
        if self.tier is not None:
            for one in pending:
                self.tier.note(one.number, one.record)
            self.tier.free_unused_homes()

    def _rebuild_homes(self, used: int, pending: List[Pending]) -> None:
        entries = self._truth.entries[:used]
        homes = entries["home"][entries["state"] != FREE]
        taken = [one.record.homes[one.record.move_in[:one.fresh]] for one in pending if self._home_rows]
        self.planner["home_high_water"], stack = free_homes(np.concatenate([homes[homes >= 0], *taken]))
        self._lend("free_homes_at", stack)
        self.planner["free_homes"] = self.planner["home_stack_room"] = len(stack)

    def _rebuild_slots(self, pending: List[Pending]) -> None:
        owners = self._truth.slot_entries.copy()
        for record in (one.record for one in pending if self._device_rows):
            owners[record.slots[record.move_in]] = record.held[record.move_in]
        self.planner["free_slots"] = rebuild_free_slots(owners, self._slot_words)
        if self.planner["slot_owners_at"]:
            self._memory["slot_owners_at"][:] = owners
