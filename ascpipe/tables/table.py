"""One table as its worker sees it: truth, view, window, free places.

*Truth* is the state after the last retired batch and belongs to the caller, who keeps it in shared memory.
Everything else here is private and derived: the key index, the window, the free entries, slots and home rows,
the victim order, and the *view*, which is the truth as it will be after the newest record made so far.
``rebuild`` makes all of it anew from truth, window and records.  Private arrays are as long as truth may ever
be, and take memory as they are used.

Records are made here and stored by the caller; a record holds absolute values only, so assigning it twice
is assigning it once.
"""
from collections import OrderedDict, deque
from typing import Deque, Iterable, Tuple

import numpy as np

from ascpipe.kernels import overlay, plan
from ascpipe.kernels.entry import HOME, SLOT, STATE
from ascpipe.kernels.free_slots import FreeSlots
from ascpipe.kernels.index import KeyIndex, find_keys, remove_keys
from ascpipe.kernels.retire import assign_keys, assign_outs, evict_entries, resolve_entries
from ascpipe.kernels.touch import collect_free, count_rows, leave_window, mark_window, name_keys
from ascpipe.tables import lazy
from ascpipe.tables.homes import FreeHomes
from ascpipe.tables.records import Batch, Record, Truth
from ascpipe.tables.swaps import Swaps
from ascpipe.words import FREE, PLAN_DEVICE_SMALL, PLAN_HOST_FULL, PLAN_NO_MEMORY, PLAN_OK, PLAN_TABLE_FULL

PLACES = 64  #: of a ring; also bits of a window mask

_NO_INTS = np.zeros(0, np.int32)


class Table:
    """Keys, rows and window of one table; ``rebuild`` comes before anything else.

    Args:
        truth: its shared memory.
    """

    def __init__(self, truth: Truth) -> None:
        self._truth, self._header = truth, truth.header
        capacity, self._home_rows = len(truth.entries), int(truth.header["home_capacity"])
        self._capacity = capacity
        self._masks = lazy.zeros(capacity, np.uint64)
        self._free_entries = lazy.zeros(capacity, np.int32)
        self._free_entry_count = np.zeros(1, np.int64)
        self._index = KeyIndex()
        self._overlay = lazy.zeros(capacity, np.int32)
        self._ends = np.zeros(2, np.int64)
        self._changes, self._changes32 = _ring(1024)
        self._free_slots = FreeSlots(self.device_rows)
        self._free_homes = FreeHomes()
        self._swaps = Swaps(self.device_rows, self._masks) if self._home_rows and self.device_rows else None
        self._window: OrderedDict[int, np.ndarray] = OrderedDict()  # held entries by frame, oldest first
        self._unplanned = 0  # bits of touched frames that are neither planned nor counted
        self._rules = np.zeros(plan.RULES, np.int64)
        self._tally = np.zeros(3, np.int64)
        self._scratch = np.zeros(0, np.int32)
        self._freed_keys = np.zeros(0, np.int64)
        self._before: Deque[Tuple[int, int]] = deque()  # (rows, time) before each record that is not retired
        self.rows = 0  #: of the view: keys that have a row
        self.time = 0  #: of the view: greatest timestamp

    @property
    def device_rows(self) -> int:
        return len(self._truth.slot_entries)

    @property
    def newest_touched(self) -> int:
        """Number of the newest frame that is touched; there is one."""
        return next(reversed(self._window))

    # ---- window

    def touch(self, unique: np.ndarray, number: int, out_held: np.ndarray) -> bool:
        """Find or name the entries of a frame's keys and keep them while it is in the window.

        Args:
            unique: int64[n]; distinct keys.
            number: of the frame.
            out_held: int32[n]; receives the entry numbers, in memory that stays until the frame is left.

        Returns:
            False if too few entries are free, or there is no memory for more; then nothing has changed.
        """
        truth, n = self._truth, len(unique)
        missing = int(find_keys(unique, n, self._index.lines, self._index.lines32, out_held))
        if missing:
            used, free = int(self._header["entries_used"]), int(self._free_entry_count[0])
            reach = used + max(0, missing - free)
            if reach > self._capacity or not truth.ready_entries(reach):
                return False
            self._index.reserve(used - free + missing)
            if reach > used:
                self._header["entries_used"] = reach  # before their state is stored
            name_keys(unique, used, self._free_entries, self._free_entry_count, self._index.lines, self._index.lines32,
                      truth.entries, truth.entries32, out_held)
        mark_window(out_held, self._masks, _bit(number))
        self._window[number] = out_held
        self._unplanned |= 1 << number % PLACES
        return True

    def touch_nothing(self, number: int) -> None:
        """Take a frame into the window whose keys found no entries."""
        self._window[number] = _NO_INTS
        self._unplanned |= 1 << number % PLACES

    def leave(self, held: np.ndarray, number: int) -> None:
        """Let go of a frame that has been retired.

        Args:
            held: int32[n]; its entry numbers, in memory that nobody reuses meanwhile.
            number: of the frame.
        """
        if self._window.pop(number, None) is None:
            return  # it was never touched
        self._make_room(len(held))
        self._pass_by(held, number)
        freed = leave_window(held, self._masks, _bit(number), self._truth.entries, self._truth.entries32,
                             self._freed_keys, self._free_entries, self._free_entry_count)
        remove_keys(self._freed_keys, freed, self._index.lines, self._index.lines32)

    def _pass_by(self, held: np.ndarray, number: int) -> None:
        """A frame is no longer one that is still to be planned; its rows may be victims of later plans."""
        bit = 1 << number % PLACES
        if self._unplanned & bit:
            self._unplanned &= ~bit
            if self._swaps is not None:
                self._swaps.release(held, self._unplanned, self._view())

    # ---- records

    def plan(self, batch: Batch, held_count: int) -> Record:
        """Make the record of a batch that stands upon the view, and move the view on.

        Args:
            batch: the batch; its record arrays are filled.
            held_count: entries that ``touch`` stored: all, or none if they did not fit.

        Returns:
            The record.  With another status than PLAN_OK nothing has changed.
        """
        n = len(batch.unique)
        if held_count < n:
            status, need = self._missing_entries(batch.unique)
        else:
            plan.draft_record(batch.held, batch.occurrences, self._set_rules(batch), *self._view(), batch.slots,
                              batch.homes, batch.counts, batch.frequencies, batch.move_in, self._tally)
            status, need = self._room()
        record = self._complete(batch) if status == PLAN_OK else batch.record(
            0, 0, 0, status=status, need=need, rows=self.rows, time=self.time)
        self._put_on(record)
        self._pass_by(self._window[batch.number], batch.number)
        return record

    def _complete(self, batch: Batch) -> Record:
        """Give places to the keys of a drafted record that fits."""
        admitted, fresh, loads = (int(value) for value in self._tally)
        move_in = batch.move_in[:fresh + loads]
        outs = self._give_slots(batch, move_in) if self.device_rows else 0
        if self._home_rows:
            plan.place_missing(move_in[:fresh], self._free_homes.take(fresh), batch.homes)
        return batch.record(len(batch.held), fresh + loads, outs, fresh=fresh, rows=self.rows + fresh,
                            time=max(self.time, batch.timestamp), admitted=admitted)

    def _give_slots(self, batch: Batch, move_in: np.ndarray) -> int:
        """Slots for the keys of ``move_in``: free ones, then those of victims; returns how many victims."""
        wanted = len(move_in)
        self._make_room(wanted)
        slots = self._scratch[:wanted]
        free = min(wanted, self._free_slots.count)
        self._free_slots.take_lowest(slots[:free])
        if free < wanted and self._swaps is not None:
            future = self._unplanned & ~(1 << batch.number % PLACES)
            oldest = next(iter(self._window))
            victims = self._swaps.choose(wanted - free, batch.held, batch.slots, future, oldest, self._view())
            slots[free:] = batch.out_slots[:len(victims)] = victims
            batch.out_entries[:len(victims)] = self._swaps.slot_entries[victims]
        plan.place_missing(move_in, slots, batch.slots)
        return wanted - free

    def _put_on(self, record: Record) -> None:
        """Put a record upon the view."""
        self._make_changes(len(record.held) + len(record.out_slots))
        overlay.push_outs(record.out_entries, record.out_homes, *self._view(), self._ends)
        overlay.push_keys(record.held, record.slots, record.homes, record.counts, record.frequencies, *self._view(),
                          self._ends)
        if self._swaps is not None:
            self._swaps.slot_entries[record.moved] = record.held[record.move_in]
        self._before.append((self.rows, self.time))
        self.rows, self.time = record.rows, record.time

    def take_back(self, revoked: Record) -> None:
        """Take the newest record off the view; the truth never knew it."""
        overlay.undo_changes(len(revoked.held) + len(revoked.out_slots), *self._view()[2:], self._ends)
        self.rows, self.time = self._before.pop()
        if self.device_rows:
            self._free_slots.release(revoked.taken)
        if self._home_rows:
            self._free_homes.give_back(revoked.homes[revoked.move_in[:revoked.fresh]])
        self._unplanned |= 1 << revoked.number % PLACES
        if self._swaps is not None:
            self._swaps.slot_entries[revoked.taken] = -1
            self._swaps.slot_entries[revoked.out_slots] = revoked.out_entries
            self._swaps.release(revoked.out_entries, self._unplanned, self._view())

    def count_only(self, batch: Batch, held_count: int) -> Record:
        """Make the record of a trained batch that this table took no part in, and move the view on.

        Args:
            batch: the batch; its record arrays are filled, and ``held`` is compacted to the known keys if
                ``touch`` had not stored all of them.
            held_count: as in ``plan``.

        Returns:
            The record; no rows move.  It stands upon the truth: no other record may be pending.
        """
        n = len(batch.unique)
        occurrences = batch.occurrences
        if held_count < n:
            self._make_room(n)
            found = self._scratch[:n]
            find_keys(batch.unique, n, self._index.lines, self._index.lines32, found)
            known = found >= 0
            occurrences, n = batch.occurrences[known], int(known.sum())
            batch.held[:n] = found[known]
        record = batch.record(n, 0, 0, rows=self.rows, time=max(self.time, batch.timestamp))
        plan.draft_count_only(record.held, occurrences, self._set_rules(batch), self._truth.entries,
                              self._truth.entries32, record.slots, record.homes, record.counts, record.frequencies)
        self._put_on(record)
        self._pass_by(self._window[batch.number], batch.number)
        return record

    def assign(self, record: Record, ticket: int) -> None:
        """Assign a record to the truth; once is as good as twice."""
        truth = self._truth
        assign_outs(record.out_slots, record.out_entries, truth.entries32, truth.slot_entries)
        stamps = self._header["access_threshold"] < 0 or self._header["counting"] != 0
        assign_keys(record.held, record.slots, record.homes, record.counts, record.frequencies, record.move_in,
                    ticket, record.time if stamps else -1, truth.entries, truth.entries32, truth.slot_entries)

    def forget(self, record: Record) -> None:
        """Take the oldest record, which has been assigned, out of the view."""
        overlay.forget_changes(len(record.held) + len(record.out_slots), self._overlay, self._changes32, self._ends)
        self._before.popleft()

    def _set_rules(self, batch: Batch) -> np.ndarray:
        header, rules = self._header, self._rules
        threshold = int(header["access_threshold"])
        counts = threshold < 0 or header["counting"] != 0
        rules[plan.HAS_HOMES], rules[plan.HAS_SLOTS] = self._home_rows > 0, self.device_rows > 0
        rules[plan.THRESHOLD], rules[plan.COEFFICIENT] = threshold, header["faae_coefficient"] if counts else 0
        rules[plan.NOW] = batch.sequence if self._swaps is not None else -1
        return rules

    def _room(self) -> Tuple[int, int]:
        """(status, need) of the drafted record."""
        admitted, fresh, _ = (int(value) for value in self._tally)
        rows = self.rows + fresh
        if not self._home_rows:
            return (PLAN_OK, 0) if fresh <= self._free_slots.count else (PLAN_TABLE_FULL, rows)
        if self.device_rows and admitted > self.device_rows:
            return PLAN_DEVICE_SMALL, admitted
        if rows > self._home_rows:
            return PLAN_HOST_FULL, rows
        reach = self._free_homes.reach(fresh)
        if reach and not self._truth.ready_homes(reach):
            return PLAN_NO_MEMORY, rows
        return PLAN_OK, 0

    def _missing_entries(self, unique: np.ndarray) -> Tuple[int, int]:
        """(status, need) of a batch whose keys found no entries."""
        self._make_room(len(unique))
        unknown = int(find_keys(unique, len(unique), self._index.lines, self._index.lines32,
                                self._scratch[:len(unique)]))
        in_use = int(self._header["entries_used"]) - int(self._free_entry_count[0])
        if in_use + unknown <= self._capacity:
            return PLAN_NO_MEMORY, in_use + unknown
        return PLAN_HOST_FULL if self._home_rows else PLAN_TABLE_FULL, self.rows + unknown

    # ---- reading and cuts

    def resolve(self, unique: np.ndarray, out_slots: np.ndarray) -> None:
        """Write where the row of each key is as the truth has it: a slot, the code of a home row, or SLOT_NONE.

        Args:
            unique: int64[n]; distinct keys.
            out_slots: int32[n].
        """
        n = len(unique)
        self._make_room(n)
        find_keys(unique, n, self._index.lines, self._index.lines32, self._scratch[:n])
        resolve_entries(self._scratch[:n], int(self._header["access_threshold"]), self._truth.entries,
                        self._truth.entries32, out_slots)

    def reset(self) -> None:
        """Forget every key.  Idempotent; no record may be pending, and touched frames must be touched again."""
        self.empty()
        self.rebuild((), ())

    def empty(self) -> None:
        """As ``reset``, of the truth alone: ``rebuild`` comes before anything else."""
        used = int(self._header["entries_used"])
        self._truth.entries32[:used, STATE] = FREE
        self._truth.slot_entries[:] = -1
        self._header["time"] = 0
        self._header["entries_used"] = 0  # after their states: nothing there is believed any more

    def set_threshold(self, threshold: int) -> None:
        """Another access threshold, or with 0 an end of counting; a table without admission stays without."""
        if self._header["access_threshold"] < 0:
            return
        if threshold > 0:
            self._header["access_threshold"] = threshold
        self._header["counting"] = int(threshold > 0)

    def evict(self, age: int) -> int:
        """Drop every key that was not used for ``age``; returns how many.  Idempotent; no record may be pending.

        Frames stay touched: the entry of a key that one of them holds becomes a name.
        """
        truth = self._truth
        dropped = int(evict_entries(int(self._header["entries_used"]), int(self._header["time"]), age, self._masks,
                                    truth.entries, truth.entries32, truth.slot_entries))
        self.rebuild(list(self._window.items()), ())
        return dropped

    # ---- restart

    def index_entries(self, count: int) -> None:
        """Index the first ``count`` entries, all of them in use, that are not seen yet; ``rebuild`` then need not."""
        self._index.rebuild(count, count, self._truth.entries, self._truth.entries32)

    def rebuild(self, window: Iterable[Tuple[int, np.ndarray]], records: Iterable[Record], *,
                is_indexed: bool = False) -> None:
        """Derive everything private from the truth, which is that after the last assigned record.

        Args:
            window: (number, held) of each touched frame that is not retired, oldest first.
            records: records that are not retired and may not be taken back, oldest first.
            is_indexed: the index is that of the entries already.
        """
        truth, used, records = self._truth, int(self._header["entries_used"]), list(records)
        for held in self._window.values():
            self._masks[held] = 0
        self._window = OrderedDict(window)
        self._unplanned = 0
        for number, held in self._window.items():
            mark_window(held, self._masks, _bit(number))
            self._unplanned |= 1 << number % PLACES
        free = self._free_entry_count[0] = collect_free(used, self._masks, truth.entries32, self._free_entries)
        if not is_indexed:
            self._index.rebuild(used - int(free), used, truth.entries, truth.entries32)
        self.rows = int(count_rows(used, HOME if self._home_rows else SLOT, truth.entries32))
        self.time = int(self._header["time"])
        if self._home_rows:
            homes = truth.entries32[:used, HOME][truth.entries32[:used, STATE] != FREE]
            self._free_homes.rebuild(np.concatenate([homes[homes >= 0]] + [
                record.homes[record.move_in[:record.fresh]] for record in records]))
        slot_entries = truth.slot_entries.copy()
        for record in records:
            if self.device_rows:
                slot_entries[record.moved] = record.held[record.move_in]
            self._unplanned &= ~(1 << record.number % PLACES)
        self._free_slots.rebuild(slot_entries)
        if self._swaps is not None:
            self._swaps.slot_entries[:] = slot_entries
            self._swaps.rebuild()
        for record in records:
            self._put_on(record)

    # ----

    def _view(self) -> Tuple[np.ndarray, ...]:
        """What kernels take that read the view."""
        return self._truth.entries, self._truth.entries32, self._overlay, self._changes, self._changes32

    def _make_changes(self, n: int) -> None:
        """See to it that n more changes fit into the ring."""
        wanted = int(self._ends[overlay.TAIL] - self._ends[overlay.HEAD]) + n
        if wanted > len(self._changes):
            changes, changes32 = _ring(1 << (wanted - 1).bit_length())
            overlay.move_changes(self._overlay, self._changes, self._changes32, changes, changes32, self._ends)
            self._changes, self._changes32 = changes, changes32

    def _make_room(self, n: int) -> None:
        if len(self._scratch) < n:
            self._scratch = np.zeros(2 * n, np.int32)
            self._freed_keys = np.zeros(2 * n, np.int64)


def _ring(places: int) -> Tuple[np.ndarray, np.ndarray]:
    changes = np.zeros((places, overlay.CHANGE_INT64_COLUMNS), np.int64)
    return changes, changes.view(np.int32).reshape(places, overlay.CHANGE_INT32_COLUMNS)


def _bit(number: int) -> np.uint64:
    return np.uint64(1 << number % PLACES)
