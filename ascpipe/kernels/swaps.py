"""Chooses the rows that leave the device when a batch needs more slots than are free.

A slot is *idle* when no frame that is still to be planned uses its row.  Once a table has chosen victims, its victim
order (see ``victims``) has the idle slots and no others.  The readable version is ``tests/reference/swaps.py``.
"""
import numpy as np

from ascpipe.kernels.bits import frame_bit, lowest_bit
from ascpipe.kernels.door import inner
from ascpipe.kernels.memory import array_at
from ascpipe.kernels.planner_memory import header_of, slot_owners_of, victims_of, view_of
from ascpipe.kernels.prefetch import prefetch
from ascpipe.kernels.victims import clear_order, drop_slot, expect_slots, put_slot, take_least
from ascpipe.kernels.view import prefetch_row
from ascpipe.layout.structs import MAX_FRAMES

_NONE = np.uint64(0)
_LOW = np.uint64(63)
_NEVER = np.uint8(MAX_FRAMES)
_AHEAD = 8  # slots between the one at hand and the one whose memory is prefetched


@inner("int64(uint64, uint64, Row[::1], int32[::1], int32[::1], uint8[::1], int32[::1])")
def take_farthest(future, first, rows, own, slot_owners, next_uses, out_slots):
    """Take the slots whose rows are used again latest; of one frame those with the lowest numbers first.

    Args:
        future: bits of the frames that are still to be planned after the batch.
        first: bit number of the oldest frame; the other frames' follow, 0 after 63.
        rows: of the view.
        own: int32[any]; slots that the batch uses, which stay; -1 is passed over.
        slot_owners: int32[device rows]; of the view: entry of each slot, -1 = empty.
        next_uses: uint8[device rows]; scratch.
        out_slots: int32[n]; receives slots, no more than n.

    Returns:
        How many were taken.
    """
    for i in range(slot_owners.shape[0]):
        slot = np.uint64(i)
        owner = slot_owners[slot]
        next_uses[slot] = _NEVER
        if owner >= 0:
            uses = rows[np.uint64(owner)]["mask"] & future
            if uses != _NONE:
                next_uses[slot] = lowest_bit((uses >> first) | (uses << ((np.uint64(MAX_FRAMES) - first) & _LOW)))
    for i in range(own.shape[0]):
        if own[i] >= 0:
            next_uses[own[i]] = _NEVER
    ends = np.zeros(MAX_FRAMES + 1, np.int64)
    for i in range(next_uses.shape[0]):
        ends[next_uses[np.uint64(i)]] += 1
    start = 0  # where the slots of a frame begin: behind those of all later ones
    for frame in range(MAX_FRAMES - 1, -1, -1):
        start += ends[frame]
        ends[frame] = start - ends[frame]
    n = out_slots.shape[0]
    for i in range(next_uses.shape[0]):
        frame = next_uses[np.uint64(i)]
        if frame != _NEVER:
            if ends[frame] < n:
                out_slots[ends[frame]] = i
            ends[frame] += 1
    return min(n, start)


@inner("void(int32[::1], int64, Row[::1], Victims)")
def _prefetch_score(held, i, rows, victims):
    """Prefetch the score of the slot of the entry that comes ``_AHEAD`` entries after entry i."""
    near = rows[np.uint64(held[np.uint64(min(i + _AHEAD, held.shape[0] - 1))])]["slot"]
    prefetch(victims.scores, np.uint64(max(np.int32(0), near)))


@inner("void(int32[::1], uint64, Row[::1], Victims)")
def put_idle(held, future, rows, victims):
    """Put the slots of some entries into the victim order: those that are idle.

    Args:
        held: int32[n]; entry numbers.
        future: bits of the frames that are still to be planned.
        rows: of the view.
        victims: the order.
    """
    expect_slots(held.shape[0], victims)
    for i in range(held.shape[0]):
        prefetch_row(held, i, rows)
        _prefetch_score(held, i, rows, victims)
        row = rows[np.uint64(held[np.uint64(i)])]
        put_slot(row["slot"], row["frequency"], (row["slot"] >= 0) & (row["mask"] & future == _NONE), victims)


@inner("void(int32[::1], Row[::1], Victims)")
def drop_held(held, rows, victims):
    """Take the slots of some entries out of the victim order.

    Args:
        held: int32[n]; entry numbers.
        rows: of the view.
        victims: the order.
    """
    for i in range(held.shape[0]):
        _prefetch_score(held, i, rows, victims)
        drop_slot(rows[np.uint64(held[np.uint64(i)])]["slot"], victims)


@inner("int64(Planner)")
def oldest_in_window(planner):
    """Number of the oldest frame of the window; there is one."""
    number = planner["newest"] - MAX_FRAMES + 1
    while planner["touched"] & frame_bit(number) == _NONE:
        number += 1
    return number


@inner("void(Planner, int64, Record, int32[::1])")
def choose_victims(planner, number, record, out_slots):
    """Choose rows that leave the device for those that move in.

    First rows that no other frame needs, the least frequent first, then the lowest slot; then those whose next use is
    farthest, then the lowest slot.

    Args:
        planner: of the table, which has a victim order.
        number: of the frame.
        record: its keys, and the slots of those that are on the device, -1 for the others.
        out_slots: int32[n]; receives the slots; n rows can leave.
    """
    future = planner["unplanned"] & ~frame_bit(number)
    rows, owners, victims = view_of(planner).rows, slot_owners_of(planner), victims_of(planner)
    if planner["victims_filled"] == 0:
        clear_order(victims)
        put_idle(owners[owners >= 0], planner["unplanned"], rows, victims)
        planner["victims_filled"] = 1
    if header_of(planner)["access_threshold"] >= 0:
        # a key of the batch that is not admitted, but has a row on the device, may lose its slot at once
        put_idle(record.held[record.slots < 0], future, rows, victims)
    chosen = take_least(out_slots, victims)
    if chosen < out_slots.shape[0]:
        next_uses = array_at(planner["next_uses_at"], planner["device_rows"], np.uint8)
        chosen += take_farthest(future, np.uint64(oldest_in_window(planner) % MAX_FRAMES), rows, record.slots, owners,
                                next_uses, out_slots[chosen:])
    if chosen < out_slots.shape[0]:
        raise AssertionError("fewer rows can leave the device than must, although the batch fits it")


@inner("void(Planner, int32[::1])")
def retain(planner, held):
    """Take the slots of some entries, which a frame needs, out of the victim order.

    Args:
        planner: of the table.
        held: int32[n]; entry numbers.
    """
    if planner["victims_filled"] != 0:
        drop_held(held, view_of(planner).rows, victims_of(planner))


@inner("void(Planner, int32[::1])")
def release(planner, held):
    """Put the slots of some entries into the victim order: those that no frame to be planned needs.

    Args:
        planner: of the table.
        held: int32[n]; entry numbers.
    """
    if planner["victims_filled"] != 0:
        put_idle(held, planner["unplanned"], view_of(planner).rows, victims_of(planner))
