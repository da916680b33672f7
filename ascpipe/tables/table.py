"""One table as its worker sees it: truth, view, window, free places.

*Truth* is the state after the last retired batch and belongs to the caller, who keeps it in shared memory.
Everything else here is private and derived: the key index, the window, the free entries, slots and home rows,
the victim order, and the *view*, which is the truth as it will be after the newest record made so far.
``rebuild`` makes all of it anew from truth, window and records.  Private arrays are as long as truth may ever
be, and take memory as they are used.

Records are made here and stored by the caller; a record holds absolute values only, so assigning it twice
is assigning it once.
"""
from typing import Iterable, List, Tuple

import numpy as np

from ascpipe.kernels import plan, view
from ascpipe.kernels.entry import HOME, SLOT, STATE
from ascpipe.kernels.free_slots import FreeSlots
from ascpipe.kernels.hashing import Spread
from ascpipe.kernels.index import KeyIndex
from ascpipe.kernels.memory import ints_at
from ascpipe.kernels.retire import evict_entries, resolve_entries
from ascpipe.layout.words import FREE, PLAN_HOST_FULL, PLAN_NO_MEMORY, PLAN_OK, PLAN_TABLE_FULL
from ascpipe.tables import lazy, state, steps
from ascpipe.tables.homes import FreeHomes
from ascpipe.tables.records import Batch, Record, Truth
from ascpipe.tables.state import PLACES, address
from ascpipe.tables.swaps import Swaps

_NO_INTS = np.zeros(0, np.int32)


class Table:
    """Keys, rows and window of one table; ``rebuild`` comes before anything else.

    Args:
        truth: its shared memory.
        spread: that places of keys in the index depend on, and nothing else.
    """

    def __init__(self, truth: Truth, spread: Spread) -> None:
        self._truth, self._header, self.device_rows = truth, truth.header, len(truth.slot_entries)
        capacity, self._home_rows = len(truth.entries), int(truth.header["home_capacity"])
        self._capacity = capacity
        own = self.state = np.zeros(state.COLUMNS, np.int64)
        self._bits = own.view(np.uint64)
        self._view = lazy.zeros(view.INT64_COLUMNS * capacity, np.int64).reshape(capacity, view.INT64_COLUMNS)
        self._view32 = self._view.view(np.int32).reshape(capacity, view.INT32_COLUMNS)
        self._masks = self._view.view(np.uint64)
        self._free_entries = lazy.zeros(capacity, np.int32)
        self._index = KeyIndex(spread)
        self._ends = own[state.HEAD:state.TAIL + 1]
        self._free_slots = FreeSlots(self.device_rows, own[state.FREE_SLOTS:state.FREE_SLOTS + 1])
        self._free_homes = FreeHomes(own[state.HIGH_WATER:state.FREE_HOMES + 1])
        self._swaps = (
            Swaps(self.device_rows, self._masks, self._view32) if self._home_rows and self.device_rows else None)
        own[state.CAPACITY], own[state.DEVICE_ROWS], own[state.HOME_ROWS] = capacity, self.device_rows, self._home_rows
        own[state.SLOT_WORDS] = len(self._free_slots.words)
        self._bits[state.SPREAD:state.SPREAD + 3] = spread
        for column, array in (
                (state.HEADER, truth.header_longs), (state.ENTRIES, truth.entries),
                (state.SLOT_ENTRIES, truth.slot_entries), (state.VIEW, self._view),
                (state.FREE_ENTRY_STACK, self._free_entries), (state.FREE_SLOT_WORDS, self._free_slots.words)):
            own[column] = address(array)
        if self._swaps is not None:
            own[state.SLOT_OWNERS] = address(self._swaps.slot_entries)
        self._set_changes(1024)
        self._make_scratch(0)
        self._say_where_keys_are()

    @property
    def rows(self) -> int:
        """Of the view: keys that have a row."""
        return int(self.state[state.ROWS])

    @property
    def time(self) -> int:
        """Of the view: greatest timestamp."""
        return int(self.state[state.TIME])

    @property
    def newest_touched(self) -> int:
        """Number of the newest frame that is touched; there is one."""
        return int(self.state[state.NEWEST])

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
        self._make_room(len(unique))
        missing = int(steps.touch(self.state, unique, number, out_held))
        if not missing:
            return True
        used, free = int(self._header["entries_used"]), int(self.state[state.FREE_ENTRIES])
        reach = used + max(0, missing - free)
        if reach > self._capacity or not self._truth.ready_entries(reach):
            return False
        self._index.reserve(used - free + missing)
        self._say_where_keys_are()
        steps.touch(self.state, unique, number, out_held)
        return True

    def touch_nothing(self, number: int) -> None:
        """Take a frame into the window whose keys found no entries."""
        steps.take_into_window(self.state, number, _NO_INTS)

    def leave(self, held: np.ndarray, number: int) -> None:
        """Let go of a frame that has been retired.

        Args:
            held: int32[n]; its entry numbers, in memory that nobody reuses meanwhile.
            number: of the frame.
        """
        if not self._has(state.TOUCHED, number):
            return
        self._make_room(len(held))
        self._pass_by(held, number)
        steps.leave(self.state, held, number)

    def _pass_by(self, held: np.ndarray, number: int) -> None:
        """A frame is no longer one that is still to be planned; its rows may be victims of later plans."""
        if self._has(state.UNPLANNED, number):
            steps.pass_by(self.state, number)
            if self._swaps is not None:
                self._swaps.release(held, self._unplanned)

    def _window(self) -> List[Tuple[int, np.ndarray]]:
        """(number, held) of each frame that is touched and not left, oldest first."""
        newest = self.newest_touched
        numbers = [number for number in range(newest - PLACES + 1, newest + 1) if self._has(state.TOUCHED, number)]
        return [(number, ints_at(*(int(self.state[column + number % PLACES])
                                   for column in (state.HELD_AT, state.HELD_COUNT)))) for number in numbers]

    def _has(self, column: int, number: int) -> bool:
        return bool(int(self._bits[column]) >> number % PLACES & 1)

    @property
    def _unplanned(self) -> int:
        return int(self._bits[state.UNPLANNED])

    # ---- records

    @property
    def pending(self) -> List[int]:
        """Numbers of the frames whose records are on the view, oldest first."""
        return [int(self.state[state.RECORD_NUMBER + record % PLACES])
                for record in range(self.state[state.FIRST_RECORD], self.state[state.NEXT_RECORD])]

    def plan(self, batch: Batch, held_count: int) -> Record:
        """Make the record of a batch that stands upon the view, and move the view on.

        Args:
            batch: the batch; its record arrays are filled.
            held_count: entries that ``touch`` stored: all, or none if they did not fit.

        Returns:
            The record.  With another status than PLAN_OK nothing has changed.
        """
        n = len(batch.unique)
        self._make_room(n)
        if held_count < n:
            status, need = self._missing_entries(batch.unique)
        else:
            self._make_changes(n)
            status, need = int(steps.draft(
                self.state, batch.sequence, batch.held, batch.occurrences, batch.slots, batch.homes, batch.counts,
                batch.frequencies, batch.move_in)), int(self.state[state.NEED])
            reach = self._free_homes.reach(int(self.state[state.FRESH])) if self._home_rows else 0
            if status == PLAN_OK and reach and not self._truth.ready_homes(reach):
                status = PLAN_NO_MEMORY
            if status != PLAN_OK:
                steps.take_back_draft(self.state, n)
        record = self._complete(batch) if status == PLAN_OK else batch.record(
            0, 0, 0, status=status, need=need, rows=self.rows, time=self.time)
        self._put_on(record, is_drafted=True)
        self._pass_by(batch.held[:held_count], batch.number)
        return record

    def _complete(self, batch: Batch) -> Record:
        """Give places to the keys of a drafted record that fits."""
        admitted, fresh, loads = (int(value) for value in self.state[state.ADMITTED:state.LOADS + 1])
        move_in = batch.move_in[:fresh + loads]
        victims = self._choose_victims(batch, fresh + loads)
        outs = len(victims)
        if self._swaps is not None:
            batch.out_slots[:outs], batch.out_entries[:outs] = victims, self._swaps.slot_entries[victims]
        steps.complete(self.state, move_in, victims, batch.slots, batch.homes)
        return batch.record(len(batch.held), fresh + loads, outs, fresh=fresh, rows=self.rows + fresh,
                            time=max(self.time, batch.timestamp), admitted=admitted)

    def _choose_victims(self, batch: Batch, wanted: int) -> np.ndarray:
        """Slots of rows that make room for those that move in, as far as the free slots are too few."""
        missing = wanted - self._free_slots.count
        if self._swaps is None or missing <= 0:
            return _NO_INTS
        self.state[state.HAS_VICTIMS] = 1
        future = self._unplanned & ~(1 << batch.number % PLACES)
        oldest, _ = self._window()[0]
        return self._swaps.choose(missing, batch.held, batch.slots, future, oldest)

    def _put_on(self, record: Record, *, is_drafted: bool = False) -> None:
        """Put a record upon the view, or what a draft of it has left."""
        self._make_changes(len(record.out_slots) + (0 if is_drafted else len(record.held)))
        steps.put_on(self.state, record.number, record.held, record.slots, record.homes, record.counts,
                     record.frequencies, record.move_in, record.out_entries, record.out_homes, record.rows,
                     record.time, is_drafted)

    def take_back(self, revoked: Record) -> None:
        """Take the newest record off the view; the truth never knew it."""
        view.undo_changes(len(revoked.held) + len(revoked.out_slots), self._view, self._view32, self._changes,
                          self._ends)
        self.state[state.NEXT_RECORD] -= 1
        self.state[state.ROWS] -= revoked.fresh
        self.state[state.TIME] = self.state[state.TIME_BEFORE + revoked.number % PLACES]
        if self.device_rows:
            self._free_slots.release(revoked.taken)
        if self._home_rows:
            self._free_homes.give_back(revoked.homes[revoked.move_in[:revoked.fresh]])
        steps.await_plan(self.state, revoked.number)
        if self._swaps is not None:
            self._swaps.slot_entries[revoked.taken] = -1
            self._swaps.slot_entries[revoked.out_slots] = revoked.out_entries
            self._swaps.release(revoked.out_entries, self._unplanned)

    def count_only(self, batch: Batch, held_count: int) -> Record:
        """Make the record of a trained batch that this table took no part in, and move the view on.

        Args:
            batch: the batch; its record arrays are filled, and ``held`` is compacted to the known keys if
                ``touch`` had not stored all of them.
            held_count: as in ``plan``.

        Returns:
            The record; no rows move.  It stands upon the truth: no other record may be pending.
        """
        n, occurrences = len(batch.unique), batch.occurrences
        if held_count < n:
            self._make_room(n)
            found = self._scratch[:n]
            self._index.find(batch.unique, found)
            known = found >= 0
            occurrences, n = batch.occurrences[known], int(known.sum())
            batch.held[:n] = found[known]
        record = batch.record(n, 0, 0, rows=self.rows, time=max(self.time, batch.timestamp))
        rules = np.zeros(plan.RULES, np.int64)
        steps.rules_of(self.state, batch.sequence, rules)
        plan.draft_count_only(record.held, occurrences, rules, self._truth.entries,
                              self._truth.entries32, record.slots, record.homes, record.counts, record.frequencies)
        self._put_on(record)
        self._pass_by(batch.held[:held_count], batch.number)
        return record

    def assign(self, record: Record, ticket: int) -> None:
        """Assign a record to the truth; once is as good as twice."""
        steps.assign(self.state, record.held, record.slots, record.homes, record.counts, record.frequencies,
                     record.move_in, record.out_slots, record.out_entries, ticket, record.time)

    def forget(self, record: Record) -> None:
        """Forget how to take back the oldest record, which has been assigned."""
        steps.forget(self.state, len(record.held) + len(record.out_slots))

    def _missing_entries(self, unique: np.ndarray) -> Tuple[int, int]:
        """(status, need) of a batch whose keys found no entries."""
        unknown = self._index.find(unique, self._scratch)
        in_use = int(self._header["entries_used"]) - int(self.state[state.FREE_ENTRIES])
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
        self._index.find(unique, self._scratch)
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
        self.rebuild(self._window(), ())
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
        own, window = self.state, list(window)
        for _, held in self._window():
            self._masks[held, view.MASK] = 0
        own[state.TOUCHED] = own[state.UNPLANNED] = 0
        for number, held in window:
            self._make_room(len(held))
            steps.take_into_window(own, number, held)
        own[state.FREE_ENTRIES], own[state.ROWS] = view.derive_view(
            used, HOME if self._home_rows else SLOT, self._masks, truth.entries, truth.entries32, self._view,
            self._view32, self._free_entries)
        if not is_indexed:
            self._index.rebuild(used - int(own[state.FREE_ENTRIES]), used, truth.entries, truth.entries32)
        self._say_where_keys_are()
        own[state.TIME] = self._header["time"]
        if self._home_rows:
            homes = truth.entries32[:used, HOME][truth.entries32[:used, STATE] != FREE]
            self._free_homes.rebuild(np.concatenate([homes[homes >= 0]] + [
                record.homes[record.move_in[:record.fresh]] for record in records]))
            own[state.HOMES_STACK] = address(self._free_homes.stack)
            own[state.HOMES_STACKED_MOST] = len(self._free_homes.stack)
        slot_entries = truth.slot_entries.copy()
        for record in records:
            if self.device_rows:
                slot_entries[record.moved] = record.held[record.move_in]
            steps.pass_by(own, record.number)
        self._free_slots.rebuild(slot_entries)
        if self._swaps is not None:
            self._swaps.slot_entries[:] = slot_entries
            self._swaps.rebuild()
            own[state.HAS_VICTIMS] = 0
        for record in records:
            self._put_on(record)

    # ----

    def _make_changes(self, n: int) -> None:
        """See to it that n more changes fit into the ring."""
        wanted = int(self._ends[view.TAIL] - self._ends[view.HEAD]) + n
        if wanted > len(self._changes):
            before = self._changes
            self._set_changes(1 << (wanted - 1).bit_length())
            view.move_changes(before, self._changes, self._ends)

    def _set_changes(self, places: int) -> None:
        self._changes = np.zeros((places, view.CHANGE_INT64_COLUMNS), np.int64)
        self.state[state.CHANGES], self.state[state.CHANGE_PLACES] = address(self._changes), places

    def _make_room(self, n: int) -> None:
        if len(self._scratch) < n:
            self._make_scratch(2 * n)

    def _make_scratch(self, n: int) -> None:
        self._scratch, self._freed_keys = np.zeros(n, np.int32), np.zeros(n, np.int64)
        self.state[state.SCRATCH], self.state[state.SCRATCH_INTS] = address(self._scratch), n
        self.state[state.FREED_KEYS] = address(self._freed_keys)

    def _say_where_keys_are(self) -> None:
        self.state[state.LINES], self.state[state.LINE_LONGS] = address(self._index.lines), len(self._index.lines)
