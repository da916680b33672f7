"""Kernels that add frames to a table's window and remove frames. The window has all frames that are touched and not
retired.

The plain-Python version is ``tests/reference/window.py``.
"""
import numpy as np

from ascpipe.kernels.bits import frame_bit
from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.index import remove_keys
from ascpipe.kernels.memory import array_at
from ascpipe.kernels.pinning import unpin_frame
from ascpipe.kernels.planner_memory import (
    entries_of,
    free_entries_of,
    held_rows_of,
    index_of,
    list_of,
    other_rows_of,
    view_of,
)
from ascpipe.kernels.swaps import rank_slots
from ascpipe.kernels.tier_memory import tier_at
from ascpipe.kernels.touch import leave_window
from ascpipe.kernels.view import hold_entries, mark_row
from ascpipe.layout.structs import MAX_FRAMES

_NONE = np.uint64(0)


@entry("void(Planner, int64, int32[::1])")
def take_into_window(planner, number, held):
    """Add a frame to the window. The caller must have found the entries of the frame's keys. The window keeps these
    entries.

    Args:
        planner: planner of the table, with scratch memory for the frame.
        number: number of the frame.
        held: int32[n]; entry numbers of the frame.
    """
    bit = frame_bit(number)
    scratch = array_at(planner["lists_scratch_at"], 2 * planner["list_room"], np.int32)
    hold_entries(planner, view_of(planner), entries_of(planner), bit, held, list_of(planner, number), scratch)
    planner["held_count"][number % MAX_FRAMES] = held.shape[0]
    planner["listed_count"][number % MAX_FRAMES] = held.shape[0]
    planner["newest"] = number
    planner["touched"] |= bit
    planner["unplanned"] |= bit


@inner("void(Planner, int64, int32[::1])")
def hold_extra_entries(planner, number, numbers):
    """Keep more entries until a frame leaves the window, because the record of the frame changes these entries.

    Args:
        planner: planner of the table.
        number: number of the frame.
        numbers: int32[n]; entry numbers. The frame may already hold some of these entries.
    """
    listed = planner["listed_count"][number % MAX_FRAMES]
    scratch = array_at(planner["lists_scratch_at"], 2 * planner["list_room"], np.int32)
    hold_entries(planner, view_of(planner), entries_of(planner), frame_bit(number), numbers,
                 list_of(planner, number)[listed:], scratch)
    planner["listed_count"][number % MAX_FRAMES] = listed + numbers.shape[0]


@entry("void(Planner, int64)")
def mark_not_to_plan(planner, number):
    """Mark a frame as needing no plan, so that later plans may choose the frame's rows as victims. The function is
    idempotent.
    """
    bit = frame_bit(number)
    if planner["unplanned"] & bit != _NONE:
        planner["unplanned"] &= ~bit
        rank_slots(planner, held_rows_of(planner, number), planner["unplanned"])


@inner("void(Planner, int64)")
def drop_extra_entries(planner, number):
    """Release the entries that a frame needs only for its record, and update the victim order. The record must be
    undone.
    """
    rows = view_of(planner).rows
    held = held_rows_of(planner, number)
    others = other_rows_of(planner, number)
    bit = frame_bit(number)
    for i in range(others.shape[0]):
        rows[others[i]]["mask"] &= ~bit
        planner["rows_held"] -= np.int64(rows[others[i]]["mask"] == _NONE)
    for i in range(held.shape[0]):  # the frame also holds some of these entries
        mark_row(planner, rows[held[i]], bit)
    rank_slots(planner, others, planner["unplanned"])
    planner["listed_count"][number % MAX_FRAMES] = held.shape[0]


@entry("void(Planner, int64)")
def leave(planner, number):
    """Remove a retired frame from the window, and release the entries that only this frame needs. The function is
    idempotent.
    """
    bit = frame_bit(number)
    if planner["touched"] & bit == _NONE:
        return
    mark_not_to_plan(planner, number)
    if planner["tier_at"] != 0:
        unpin_frame(planner, tier_at(planner["tier_at"]), number)
    listed = list_of(planner, number)[:planner["listed_count"][number % MAX_FRAMES]]
    keys = array_at(planner["freed_keys_at"], planner["list_room"], np.int64)
    freed = leave_window(planner, view_of(planner), listed, bit, entries_of(planner), keys, free_entries_of(planner))
    remove_keys(keys, freed, index_of(planner))
    planner["touched"] &= ~bit
