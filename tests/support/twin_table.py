"""A small table in memory of its own beside its plain-Python twin: both take each step, then both are compared."""
import ctypes
import math
from unittest import mock

import numpy as np

from ascpipe.kernels.asks import LACKS_NOTHING, LACKS_ROWS
from ascpipe.kernels.free_slots import first_leaf
from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.index import find_keys
from ascpipe.kernels.records import CHANGE, ROW, View
from ascpipe.kernels.victims import NOT_IN
from ascpipe.layout.row_blocks import slots_per_block
from ascpipe.layout.structs import MAX_FRAMES
from ascpipe.tables import table as table_module
from ascpipe.tables.records import Truth
from tests.reference import batch_steps as twins
from tests.reference import window as window_twins
from tests.reference.bits import frame_bit
from tests.reference.deriving import derive_record, derive_tier, free_unused_homes
from tests.reference.rescoring import true_scores
from tests.reference.tier_memory import Tier
from tests.reference.view import derive_view
from tests.support.sim_ring import aligned, make_table
from tests.support.twin_tier import ROW_FLOATS, compare_tier

ROW_FIELDS = ("slot", "home", "count", "frequency")
TRUTH_FIELDS = ("slot", "home", "count", "frequency", "last", "timestamp", "state", "generation")
#: of the planner; a step may write them although it lacks something
NOTES = ("missing", "home_reach")


def array_at(address, n, kind):
    """n items at an address, for Python."""
    return np.ndarray((int(n),), kind, (ctypes.c_char * (int(n) * np.dtype(kind).itemsize)).from_address(int(address)))


def lent(planner, field, n, kind):
    """The array that a planner knows by this field; ``n`` may be the field that has its length."""
    return array_at(planner[field], planner[n] if isinstance(n, str) else n, kind)


def view_of(planner):
    """The view."""
    return View(lent(planner, "view_at", "capacity", ROW), lent(planner, "changes_at", "change_room", CHANGE),
                lent(planner, "row_of_at", "capacity", np.int32))


def list_of(planner, number):
    """int32[n]: rows that a frame of the window took."""
    lists = lent(planner, "lists_at", int(planner["list_room"]) * MAX_FRAMES, np.int32).reshape(MAX_FRAMES, -1)
    return lists[number % MAX_FRAMES, :planner["listed_count"][number % MAX_FRAMES]]


class TwinTable:
    """A table and its twin.

    Args:
        device_rows, home_rows, capacity, threshold, coefficient: of the table.
        home_memory: home rows at most that get memory.
        keys: that may occur.
        disk_slots: 0: no row goes to disk.
    """

    def __init__(self, device_rows, home_rows, capacity, threshold=-1, coefficient=1, home_memory=math.inf,
                 keys=range(40), disk_slots=0):
        self.segment = make_table(device_rows, capacity, self._allocate, home_rows, ROW_FLOATS, disk_slots,
                                  access_threshold=threshold, faae_coefficient=coefficient)
        self.header, self._home_memory, self._keys = self.segment.header, home_memory, np.array(keys, np.int64)
        tier = Tier(home_rows, disk_slots, slots_per_block(4 * ROW_FLOATS), int(self.segment.disk_table["asks_room"])
                    ) if disk_slots else None
        self.twin = twins.Table(device_rows, home_rows, capacity, threshold, coefficient, tier)
        self.restart([], [])
        if tier:
            derive_tier(self.twin, 0)

    def _allocate(self, size):
        self._memory = aligned(size)
        return self._memory

    def restart(self, window, pending):
        """A new worker takes over: (number, held) of each frame in the window, and records that stay."""
        header = self.header
        truth = Truth(header, self.segment.header_at, self.segment.entries, self.segment.slot_entries,
                      self._ready_entries, self._ready_homes, self.segment.disk_table, self.segment.requests)
        with mock.patch.multiple(table_module, _FIRST_CHANGES=1, _LEAST_ROWS=1):
            self.table = table_module.Table(truth, spread_of(7))
        self.planner = self.table.planner
        self.table.rebuild(window, pending)
        if self.twin.tier:
            self.twin.tier.failed_writes = self.twin.tier.last_error = 0
        self.provided()

    def restart_twin(self, window, pending):
        """The same of the twin: (number, held), and (number, record, fresh, rows, time)."""
        twin, old = self.twin, dict(self.twin.view)
        fresh = twins.Table(twin.device_rows, twin.home_rows, twin.capacity, twin.threshold, twin.coefficient,
                            twin.tier)
        fresh.counting, fresh.entries, fresh.slot_entries = twin.counting, twin.entries, twin.slot_entries
        fresh.used = twin.used
        for number, held in window:
            window_twins.take_into_window(fresh, number, held)
        place = 1 if twin.home_rows else 0
        rows = [entry.values()[:4] for entry in twin.entries]
        states, known, fresh.free_entries, fresh.rows = derive_view(
            twin.used, [row[place] for row in rows], fresh.masks(), rows, [entry.state for entry in twin.entries])
        for entry, state in zip(fresh.entries, states):
            entry.state = state
        fresh.view = known
        fresh.index = {key: entry for key, entry in twin.index.items() if entry in known}
        fresh.time = int(self.header["time"])
        fresh.homes_ready = twin.homes_ready
        if fresh.tier:
            derive_tier(fresh, fresh.used)
        for number, record, _, rows, time in pending:
            window_twins.mark_not_to_plan(fresh, number)
            twins.put_on(fresh, number, record, rows, time)
        if fresh.tier:
            for number, record, *_ in pending:
                derive_record(fresh, number, record)
            free_unused_homes(fresh)
        else:
            assert all(fresh.view[entry] == old[entry] for entry in fresh.view)
        fresh.homes = {row[1] for row in fresh.view.values() if row[1] >= 0}
        fresh.free_slots -= {row[0] for row in fresh.view.values()}
        self.twin = fresh
        self.provided()

    def _ready_entries(self, count):
        self.header["entries_ready"] = max(count, self.header["entries_ready"])
        return True

    def _ready_homes(self, count):
        if count > self._home_memory:
            return False
        self.header["homes_ready"] = max(count, self.header["homes_ready"])
        return True

    def provided(self):
        """Tell the twin what there is memory for."""
        twin, planner, header = self.twin, self.planner, self.header
        twin.scratch_room, twin.has_order = int(planner["scratch_room"]), bool(planner["order_at"])
        twin.entries_ready, twin.homes_ready = int(header["entries_ready"]), int(header["homes_ready"])
        twin.change_room, twin.home_rows = int(planner["change_room"]), int(planner["home_rows"])
        twin.home_memory_exhausted = bool(planner["home_memory_exhausted"])

    def image(self):
        """All that a step may change, as bytes, except what it may write although it lacks something."""
        planner = self.planner.copy()
        for name in NOTES:
            planner[name] = 0
        memory = [(name, array.tobytes()) for name, array in sorted(self.table._memory.items())
                  if name not in ("", "changes_at", "scratch_at", "freed_keys_at", "lists_at", "lists_scratch_at")]
        lists = [list_of(self.planner, position).tolist() for position in range(MAX_FRAMES)]
        return planner.tobytes(), memory, self._memory.tobytes(), self.live_changes(), lists

    def live_changes(self):
        """Of the ring of changes, those that may be undone."""
        changes = view_of(self.planner).changes
        return [changes[number % len(changes)].tobytes()
                for number in range(int(self.planner["oldest_change"]), int(self.planner["next_change"]))]

    def compare(self):
        """All of both says the same."""
        planner, twin = self.planner, self.twin
        assert (int(planner["rows"]), int(planner["time"])) == (twin.rows, twin.time)
        assert self._seen_window() == (twin.window, twin.unplanned)
        records = range(int(planner["first_record"]), int(planner["next_record"]))
        assert [int(planner["record_frame"][record % MAX_FRAMES]) for record in records] == [
            number for number, _ in twin.pending]
        for name in ("touch_blocked", "home_memory_exhausted", "is_loading"):
            assert bool(planner[name]) == getattr(twin, name), name
        self._compare_entries()
        self._compare_places()
        if twin.tier:
            compare_tier(self)
        assert len(self.live_changes()) == len(twin.changes)

    def _seen_window(self):
        planner, window, unplanned = self.planner, {}, set()
        newest = int(planner["newest"])
        for number in range(newest - MAX_FRAMES + 1, newest + 1):
            if int(planner["touched"]) & frame_bit(number):
                held = list_of(planner, number)[:planner["held_count"][number % MAX_FRAMES]]
                window[number] = view_of(planner).rows["entry"][held].tolist()
            if int(planner["unplanned"]) & frame_bit(number):
                unplanned.add(number)
        return window, unplanned

    def rows_of_entries(self):
        """Of entries that have one, the row of the view."""
        return {entry: int(row) - 1 for entry, row in enumerate(view_of(self.planner).row_of) if row}

    def _compare_entries(self):
        planner, twin = self.planner, self.twin
        found = np.empty(len(self._keys), np.int32)
        find_keys(self._keys, len(self._keys), self.table._index.index, found)
        assert {key: entry for key, entry in zip(self._keys.tolist(), found.tolist()) if entry >= 0} == twin.index
        stack = lent(planner, "free_entries_at", "capacity", np.int32)[:planner["free_entries"]]
        assert (int(self.header["entries_used"]), stack.tolist()) == (twin.used, twin.free_entries)
        self._compare_rows()
        known = self.segment.entries
        for entry in set(range(twin.used)) - set(stack.tolist()):
            assert tuple(int(known[entry][field]) for field in TRUTH_FIELDS) == twin.entries[entry].values(), entry
        assert known["state"].tolist() == [entry.state for entry in twin.entries]
        for key, entry in twin.index.items():
            assert known[entry]["key"] == key

    def _compare_rows(self):
        """Entries of the window have rows; of the others the truth is the view, and rows of theirs say the same."""
        planner, twin, known = self.planner, self.twin, self.segment.entries
        rows, used = view_of(planner).rows, int(planner["rows_used"])
        kept = [row for row in rows[:used] if row["entry"] >= 0]
        taken = {int(row["entry"]): row for row in kept}
        masks = {entry: mask for entry, mask in enumerate(twin.masks()) if mask}
        assert {int(row["entry"]): int(row["mask"]) for row in rows[:used] if row["mask"]} == masks
        assert len(taken) == len(kept)
        assert set(taken) <= set(twin.view)
        for entry, row in twin.view.items():
            seen = taken.get(entry, known[entry])
            assert tuple(int(seen[field]) for field in ROW_FIELDS) == row, entry
        row_of = view_of(planner).row_of
        assert all(rows[row_of[row["entry"]] - 1] == row for row in kept)
        assert np.count_nonzero(row_of) == len(kept)
        assert planner["rows_held"] == len(masks)

    def _compare_places(self):
        planner, twin = self.planner, self.twin
        assert self.segment.slot_entries.tolist() == twin.slot_entries
        words, first = lent(planner, "slot_words_at", "slot_words", np.uint64), int(first_leaf(twin.device_rows))
        free = {slot for slot in range(twin.device_rows) if int(words[first + slot // 64]) >> slot % 64 & 1}
        assert free == twin.free_slots
        assert int(planner["free_slots"]) == len(free)
        if twin.home_rows:
            high = int(planner["home_high_water"])
            stack = lent(planner, "free_homes_at", "home_stack_room", np.int32)[:planner["free_homes"]].tolist()
            assert (high, stack) == ((twin.tier.high, twin.tier.free) if twin.tier else (
                max(twin.homes, default=-1) + 1, sorted(set(range(high)) - twin.homes, reverse=True)))
        owners = {row[0]: entry for entry, row in twin.view.items() if row[0] >= 0}
        assert set(owners) == set(range(twin.device_rows)) - free
        if planner["slot_owners_at"]:
            assert lent(planner, "slot_owners_at", "device_rows", np.int32).tolist() == [
                owners.get(slot, -1) for slot in range(twin.device_rows)]
        assert bool(planner["victims_filled"]) == twin.victims_filled
        if twin.victims_filled:
            scores = lent(planner, "scores_at", "device_rows", np.int32).tolist()
            right = true_scores(twin, int(planner["newest"]), int(planner["first_use"]))
            assert {slot for slot, score in enumerate(scores) if score != NOT_IN} == set(right)
            assert all(scores[slot] <= right[slot] for slot in right)  # too low is put right when it is taken


def provide(pair, step, n):
    """Take a step until it lacks nothing; each time it lacks something it has changed nothing.

    Args:
        pair: a ``TwinTable``.
        step: gives what it lacks.
        n: keys of its frame.

    Returns:
        What it still lacks: nothing, entries, or rows.
    """
    lacked = []
    while True:
        before = pair.image()
        lacks = step()
        if lacks == LACKS_NOTHING:
            return lacks
        assert pair.image() == before
        if lacks == LACKS_ROWS:  # they come by themselves
            return lacks
        assert lacks not in lacked
        lacked.append(lacks)
        if not pair.table.provide(lacks, n):
            return lacks
        pair.provided()
