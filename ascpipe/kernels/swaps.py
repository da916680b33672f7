"""Which rows leave the device when a batch needs more slots than are free.

A slot is *idle* when no frame that is still to be planned uses its row.  Idle slots stand in the victim order
(see ``victims``), but not every slot there is idle: one whose row is wanted again stays in until it is met.
The readable version is ``tests/reference/swaps.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.bits import lowest_bit
from ascpipe.kernels.view import FREQUENCY, MASK, SLOT, prefetch_row

_NONE = np.uint64(0)
_PLACES = np.uint64(64)
_LOW = np.uint64(63)
_NEVER = np.uint8(64)


@njit("void(int32[::1], uint8, uint8[::1])", cache=True, nogil=True)
def mark_slots(slots, mark, marks):
    """Mark the slots that a batch uses, or unmark them.

    Args:
        slots: int32[n]; slots, -1 is passed over.
        mark: 1 or 0.
        marks: uint8[device rows].
    """
    for i in range(slots.shape[0]):
        if slots[i] >= 0:
            marks[slots[i]] = mark


@njit("int64(int32[::1], uint64, uint64[:, ::1], uint8[::1], int32[::1], int32[::1])", cache=True, nogil=True)
def keep_idle(candidates, future, masks, marks, slot_entries, out_slots):
    """Keep the slots that may be victims: taken, idle, and not of the batch.

    Args:
        candidates: int32[n]; slots.
        future: bits of the frames that are still to be planned after the batch.
        masks: uint64[capacity, 4]; the view.
        marks: uint8[device rows]; 1 = a slot of the batch.
        slot_entries: int32[device rows]; the view: entry of each slot, -1 = empty.
        out_slots: int32[>= n]; receives the slots kept, in the order of ``candidates``.

    Returns:
        How many were kept.
    """
    kept = 0
    for i in range(candidates.shape[0]):
        slot = candidates[i]
        entry = slot_entries[slot]
        if entry >= 0 and marks[slot] == 0 and masks[entry, MASK] & future == _NONE:
            out_slots[kept] = slot
            kept += 1
    return kept


@njit("int64(uint64, uint64, uint64[:, ::1], uint8[::1], int32[::1], uint8[::1], int64[::1], int32[::1])",
      cache=True, nogil=True)
def take_farthest(future, first, masks, marks, slot_entries, next_uses, ends, out_slots):
    """Take slots whose rows are used again latest; in a frame those with the lowest numbers first.

    Args:
        future: bits of the frames that are still to be planned after the batch.
        first: bit number of the oldest frame; the other frames' follow, 0 after 63.
        masks: uint64[capacity, 4]; the view.
        marks: uint8[device rows]; 1 = a slot of the batch.
        slot_entries: int32[device rows]; the view: entry of each slot, -1 = empty.
        next_uses: uint8[device rows]; scratch.
        ends: int64[65]; scratch.
        out_slots: int32[n]; receives slots, no more than n.

    Returns:
        How many were taken.
    """
    ends[:] = 0
    for i in range(slot_entries.shape[0]):
        slot = np.uint64(i)
        entry = slot_entries[slot]
        next_uses[slot] = _NEVER
        if entry >= 0 and marks[slot] == 0:
            uses = masks[np.uint64(entry), MASK] & future
            if uses != _NONE:
                turned = (uses >> first) | (uses << ((_PLACES - first) & _LOW))
                next_uses[slot] = lowest_bit(turned)
                ends[next_uses[slot]] += 1
    start = 0  # where the slots of a frame begin: behind those of all later ones
    for frame in range(63, -1, -1):
        start += ends[frame]
        ends[frame] = start - ends[frame]
    n = out_slots.shape[0]
    for i in range(slot_entries.shape[0]):
        frame = next_uses[np.uint64(i)]
        if frame != _NEVER:
            if ends[frame] < n:
                out_slots[ends[frame]] = i
            ends[frame] += 1
    return min(n, start)


@njit("int64(int32[::1], uint64, uint64[:, ::1], int32[:, ::1], int32[::1], int32[::1])", cache=True, nogil=True)
def idle_slots(held, future, masks, view32, out_slots, out_scores):
    """List the slots of those entries that are on the device and idle.

    Args:
        held: int32[n]; entry numbers.
        future: bits of the frames that are still to be planned.
        masks, view32: uint64[capacity, 4], int32[capacity, 8]; the view.
        out_slots, out_scores: int32[>= n]; receive slots and their frequencies.

    Returns:
        How many there are.
    """
    cells = masks.reshape(-1)
    idle = 0
    for i in range(held.shape[0]):
        prefetch_row(held, i, cells)
        entry = np.uint64(held[i])
        slot = view32[entry, SLOT]
        if slot >= 0 and masks[entry, MASK] & future == _NONE:
            out_slots[idle] = slot
            out_scores[idle] = view32[entry, FREQUENCY]
            idle += 1
    return idle
