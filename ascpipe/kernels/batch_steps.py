"""The steps that process a batch for one table: touch, plan, assign, and steps that undo or repeat another step.

The steps that add and remove frames of the window are in ``window``. Each step uses the table's PLANNER, which has the
addresses of the arrays. A step that lacks memory changes nothing and returns the missing resource (LACKS_*). Python
code provides the memory (``ascpipe.tables.table``) and calls the step again. ``tests/reference/replay.py`` defines a
plan in plain Python.
"""
import numpy as np

from ascpipe.kernels.asks import LACKS_ENTRIES, LACKS_HOMES, LACKS_NOTHING, LACKS_ROWS, LACKS_SCRATCH, LACKS_VICTIMS
from ascpipe.kernels.assign_homes import assign_homes
from ascpipe.kernels.bits import frame_bit
from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.free_homes import give_back_homes, home_reach, take_homes
from ascpipe.kernels.free_slots import release_slots, take_lowest_slots
from ascpipe.kernels.index import find_keys
from ascpipe.kernels.memory import array_at
from ascpipe.kernels.pinning import forget_new_keys, free_home_rows
from ascpipe.kernels.plan import place_missing
from ascpipe.kernels.planner_memory import (
    entries_of,
    free_entries_of,
    free_homes_of,
    header_of,
    held_rows_of,
    index_of,
    list_of,
    other_rows_of,
    slot_entries_of,
    slot_owners_of,
    slot_words_of,
    view_of,
)
from ascpipe.kernels.quarantine import may_take_free
from ascpipe.kernels.records import Rules
from ascpipe.kernels.retire import assign_keys, assign_outs
from ascpipe.kernels.swaps import choose_victims, drop_slots
from ascpipe.kernels.tier_memory import disk_table_of, tier_at
from ascpipe.kernels.touch import name_keys
from ascpipe.kernels.view import apply_keys, apply_outs, undo_changes
from ascpipe.kernels.window import drop_extra_entries, hold_extra_entries, take_into_window
from ascpipe.layout.structs import MAX_FRAMES
from ascpipe.layout.words import PLAN_DEVICE_SMALL, PLAN_HOST_FULL, PLAN_NO_MEMORY, PLAN_OK, PLAN_TABLE_FULL


@inner("int64(Planner, int64, int64[::1], int32[::1])")
def touch(planner, number, unique, out_held):
    """Find or create the entries of a frame's keys. The entries are kept while the frame is in the window.

    Args:
        planner: planner of the table. ``missing`` receives the number of keys without an entry.
        number: number of the frame.
        unique: int64[n]; distinct keys.
        out_held: int32[n]; receives the entry numbers.

    Returns:
        LACKS_NOTHING, LACKS_SCRATCH or LACKS_ENTRIES.
    """
    n = unique.shape[0]
    if n > planner["scratch_room"]:
        return LACKS_SCRATCH
    index = index_of(planner)
    missing = planner["missing"] = find_keys(unique, n, index, out_held)
    if missing:
        header = header_of(planner)
        used = header["entries_used"]
        reach = used + max(np.int64(0), missing - planner["free_entries"])
        if reach > header["entries_ready"]:
            return LACKS_ENTRIES
        if reach > used:
            header["entries_used"] = reach  # before the states of these entries are stored
        name_keys(planner, unique, used, index, entries_of(planner), free_entries_of(planner), out_held)
    take_into_window(planner, number, out_held)
    return LACKS_NOTHING


@entry("Rules(Planner, int64)")
def rules_of(planner, sequence):
    """Return the settings of a table that affect the plan of a batch. ``sequence`` is the sequence number of the
    batch's ticket.
    """
    header = header_of(planner)
    threshold = header["access_threshold"]
    counts = threshold < 0 or header["counting"] != 0
    has_homes = planner["home_rows"] > 0
    has_slots = planner["device_rows"] > 0
    return Rules(np.int64(has_homes), np.int64(has_slots), threshold,
                 header["faae_coefficient"] if counts else np.int64(0),
                 np.int64(sequence) if has_homes and has_slots else np.int64(-1))


@inner("UniTuple(int64, 2)(Planner, int64[::1])")
def missing_entries(planner, unique):
    """For a table with too few entries for a batch, return the reason (PLAN_*) and the required number of entries or
    rows.

    The planner must have scratch memory. For PLAN_NO_MEMORY, the number counts entries. For a full table, it counts
    rows.
    """
    n = unique.shape[0]
    unknown = find_keys(unique, n, index_of(planner), array_at(planner["scratch_at"], n, np.int32))
    in_use = header_of(planner)["entries_used"] - planner["free_entries"]
    if in_use + unknown <= planner["capacity"]:
        return PLAN_NO_MEMORY, in_use + unknown
    return PLAN_HOST_FULL if planner["home_rows"] > 0 else PLAN_TABLE_FULL, planner["rows"] + unknown


@inner("UniTuple(int64, 2)(Planner, int64, int64)")
def fit(planner, admitted, fresh):
    """Return whether the rows of a drafted record fit into the table, as a PLAN_* status, and the required number of
    rows.

    Args:
        planner: planner of the table.
        admitted, fresh: key counts of the record, returned by ``draft_record``.

    Returns:
        (PLAN_* status, number of rows that the batch or the table needs).
    """
    rows = planner["rows"] + fresh
    if planner["home_rows"] == 0:
        return PLAN_OK if fresh <= planner["free_slots"] else PLAN_TABLE_FULL, rows
    if planner["device_rows"] > 0 and admitted > planner["device_rows"]:
        return PLAN_DEVICE_SMALL, admitted
    most = planner["home_rows"] if planner["tier_at"] == 0 else disk_table_of(tier_at(planner["tier_at"]))["disk_slots"]
    if rows > most:
        return PLAN_HOST_FULL, rows
    if home_reach(planner, fresh) > header_of(planner)["homes_ready"] and planner["home_memory_exhausted"] != 0:
        return PLAN_NO_MEMORY, rows
    return PLAN_OK, rows


@inner("int64(Planner, int64, int64)")
def lacks_of(planner, fresh, loads):
    """Return the resource that a table needs before a drafted record can be completed. The record must fit into the
    table.

    Args:
        planner: planner of the table. ``home_reach`` is set if home rows are missing.
        fresh, loads: key counts of the record, returned by ``draft_record``.

    Returns:
        LACKS_NOTHING, LACKS_ROWS, LACKS_HOMES or LACKS_VICTIMS.
    """
    if planner["home_rows"] == 0:
        return LACKS_NOTHING
    if planner["tier_at"] != 0 and fresh > 0 and (
            fresh > free_home_rows(planner) or not may_take_free(tier_at(planner["tier_at"]))):
        return LACKS_ROWS
    reach = home_reach(planner, fresh)
    if reach > header_of(planner)["homes_ready"]:
        planner["home_reach"] = reach
        return LACKS_HOMES
    if planner["device_rows"] > 0 and fresh + loads > planner["free_slots"] and planner["order_at"] == 0:
        return LACKS_VICTIMS
    return LACKS_NOTHING


@inner("int64(Planner, int64, int64, Record)")
def complete(planner, number, fresh, record):
    """Assign slots and home rows to the keys of a drafted record. Free slots are used before slots of victims.

    Args:
        planner: planner of the table. The record must fit (``fit``), and the table must have all resources
            (``lacks_of``).
        number: number of the frame.
        fresh: number of keys that have no row yet and move in. These keys are first in ``move_in``.
        record: ``out_slots`` and ``out_entries`` must have space for one victim per row that moves in.

    Returns:
        Number of victims.
    """
    move_in = record.move_in
    outs = np.int64(0)
    if planner["device_rows"] > 0:
        m = np.int64(move_in.shape[0])
        free = min(m, planner["free_slots"])
        outs = m - free
        slots = array_at(planner["scratch_at"], m, np.int32)
        if outs > 0:
            choose_victims(planner, number, record, record.out_slots[:outs])
            owners = slot_owners_of(planner)
            for i in range(outs):
                slots[free + i] = record.out_slots[i]
                record.out_entries[i] = owners[record.out_slots[i]]
            hold_extra_entries(planner, number, record.out_entries[:outs])
        take_lowest_slots(planner["device_rows"], slot_words_of(planner), slots[:free])
        planner["free_slots"] -= free
        place_missing(move_in, slots, record.slots)
    if planner["home_rows"] > 0:
        take_homes(planner, free_homes_of(planner), move_in[:fresh], record.homes)
    if planner["tier_at"] != 0:
        forget_new_keys(tier_at(planner["tier_at"]), number)
    return outs


@inner("void(Planner, int64, Record, int64, int64)")
def add_record(planner, number, record, rows, time):
    """Append a record to the pending records. The changes of the record must already be in the view.

    Args:
        planner: planner of the table.
        number: number of the frame.
        record: record of the frame.
        rows, time: number of rows and time of the table after the record.
    """
    if planner["slot_owners_at"] != 0:
        owners = slot_owners_of(planner)
        for i in range(record.move_in.shape[0]):
            moved = record.move_in[i]
            owners[record.slots[moved]] = record.held[moved]
    planner["time_before"][number % MAX_FRAMES] = planner["time"]
    planner["record_frame"][planner["next_record"] % MAX_FRAMES] = number
    planner["next_record"] += 1
    planner["rows"] = rows
    planner["time"] = time


@entry("void(Planner, int64, Record, int64, int64)")
def put_on(planner, number, record, rows, time):
    """Apply a complete record to the view. The view must have space for the record's changes.

    Args:
        planner: planner of the table.
        number: number of the frame. After the call, the frame no longer needs a plan.
        record: record of the frame.
        rows, time: number of rows and time of the table after the record.
    """
    view = view_of(planner)
    listed = held_rows_of(planner, number)
    if listed.shape[0] != record.held.shape[0]:  # a count-only record of a frame that could not be touched
        hold_extra_entries(planner, number, record.held)
        listed = other_rows_of(planner, number)
    before = planner["listed_count"][number % MAX_FRAMES]
    hold_extra_entries(planner, number, record.out_entries)
    apply_outs(planner, view, list_of(planner, number)[before:before + record.out_entries.shape[0]], record.out_homes)
    apply_keys(planner, view, listed, record)
    add_record(planner, number, record, rows, time)


@entry("void(Planner, int64, Record, int64)")
def take_back(planner, number, record, fresh):
    """Remove the newest record from the view. The truth must not contain the record yet. After the call, the frame of
    the record must be planned again.

    Args:
        planner: planner of the table.
        number: number of the frame.
        record: record of the frame.
        fresh: number of keys that had no row before they moved in.
    """
    drop_slots(planner, record.slots[record.move_in])
    undo_changes(planner, view_of(planner), np.int64(record.held.shape[0] + record.out_slots.shape[0]))
    planner["next_record"] -= 1
    planner["rows"] -= fresh
    planner["time"] = planner["time_before"][number % MAX_FRAMES]
    planner["unplanned"] |= frame_bit(number)
    if planner["device_rows"] > 0:
        taken = record.slots[record.move_in[:record.move_in.shape[0] - record.out_slots.shape[0]]]
        released = release_slots(taken, planner["device_rows"], slot_words_of(planner))
        planner["free_slots"] += released
        if released < taken.shape[0]:
            raise AssertionError("a slot that a record took is free")
    if planner["home_rows"] > 0:
        give_back_homes(planner, free_homes_of(planner), record.move_in[:fresh], record.homes)
    if planner["tier_at"] != 0:  # the frame stays pinned
        tier = tier_at(planner["tier_at"])
        tier["new_keys"][number % MAX_FRAMES] = fresh
        tier["lacking"] += fresh
    if planner["slot_owners_at"] != 0:
        owners = slot_owners_of(planner)
        for i in range(record.move_in.shape[0]):
            owners[record.slots[record.move_in[i]]] = -1
        for i in range(record.out_slots.shape[0]):
            owners[record.out_slots[i]] = record.out_entries[i]
    drop_extra_entries(planner, number)


@entry("void(Planner, int64, Record, int64, int64)")
def assign(planner, number, record, ticket, time):
    """Store the slots, home rows and values of a record in the truth. The function is idempotent.

    Args:
        planner: planner of the table.
        number: number of the frame. The frame must be in the window, unless the table will be rebuilt.
        record: record of the batch.
        ticket: ticket of the batch.
        time: time of the table after the batch.
    """
    entries = entries_of(planner)
    slot_entries = slot_entries_of(planner)
    assign_outs(record.out_slots, record.out_entries, entries, slot_entries)
    if planner["tier_at"] != 0:
        assign_homes(planner, tier_at(planner["tier_at"]), number, record)
    assign_keys(record, ticket, time, entries, slot_entries)


@inner("void(Planner, int64)")
def forget(planner, n):
    """Drop the ``n`` changes of the oldest record from the view. The truth must already contain the record."""
    planner["oldest_change"] += n
    planner["first_record"] += 1
