"""Chooses the rows that leave the device when a batch needs more slots than are free.

A slot is *idle* when no frame that is still to be planned uses its row.  Idle slots are in the victim order
(see ``victims``), but not every slot there is idle: one whose row is needed again stays in until it is met.
The readable version is ``tests/reference/swaps.py``.
"""
import numpy as np

from ascpipe.kernels.bits import frame_bit, lowest_bit
from ascpipe.kernels.door import inner
from ascpipe.kernels.memory import array_at
from ascpipe.kernels.planner_memory import header_of, slot_owners_of, victims_of, view_of
from ascpipe.kernels.prefetch import prefetch
from ascpipe.kernels.victims import clear_order, put_slot, take_least
from ascpipe.kernels.view import prefetch_row
from ascpipe.layout.structs import MAX_FRAMES

_NONE = np.uint64(0)
_LOW = np.uint64(63)
_NEVER = np.uint8(MAX_FRAMES)
_AHEAD = 8  # slots between the one at hand and the one whose memory is prefetched


@inner("void(int32[::1], uint8, uint8[::1])")
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


@inner("int64(int32[::1], uint64, Row[::1], uint8[::1], int32[::1], int32[::1])")
def keep_idle(candidates, future, rows, marks, slot_owners, out_slots):
    """Keep the slots that may be victims: taken, idle, and not of the batch.

    Args:
        candidates: int32[n]; slots.
        future: bits of the frames that are still to be planned after the batch.
        rows: of the view.
        marks: uint8[device rows]; 1 = a slot of the batch.
        slot_owners: int32[device rows]; of the view: entry of each slot, -1 = empty.
        out_slots: int32[>= n]; receives the slots kept, in the order of ``candidates``; may be the same memory.

    Returns:
        How many were kept.
    """
    kept, n = 0, candidates.shape[0]
    for i in range(n):
        prefetch(rows, np.uint64(max(np.int32(0), slot_owners[candidates[min(i + _AHEAD, n - 1)]])))
        slot = candidates[i]
        owner = slot_owners[slot]
        if owner >= 0 and marks[slot] == 0 and rows[owner]["mask"] & future == _NONE:
            out_slots[kept] = slot
            kept += 1
    return kept


@inner("int64(uint64, uint64, Row[::1], uint8[::1], int32[::1], uint8[::1], int32[::1])")
def take_farthest(future, first, rows, marks, slot_owners, next_uses, out_slots):
    """Take the slots whose rows are used again latest; of one frame those with the lowest numbers first.

    Args:
        future: bits of the frames that are still to be planned after the batch.
        first: bit number of the oldest frame; the other frames' follow, 0 after 63.
        rows: of the view.
        marks: uint8[device rows]; 1 = a slot of the batch.
        slot_owners: int32[device rows]; of the view: entry of each slot, -1 = empty.
        next_uses: uint8[device rows]; scratch.
        out_slots: int32[n]; receives slots, no more than n.

    Returns:
        How many were taken.
    """
    ends = np.zeros(MAX_FRAMES, np.int64)
    for i in range(slot_owners.shape[0]):
        slot = np.uint64(i)
        owner = slot_owners[slot]
        next_uses[slot] = _NEVER
        if owner >= 0 and marks[slot] == 0:
            uses = rows[np.uint64(owner)]["mask"] & future
            if uses != _NONE:
                turned = (uses >> first) | (uses << ((np.uint64(MAX_FRAMES) - first) & _LOW))
                next_uses[slot] = lowest_bit(turned)
                ends[next_uses[slot]] += 1
    start = 0  # where the slots of a frame begin: behind those of all later ones
    for frame in range(MAX_FRAMES - 1, -1, -1):
        start += ends[frame]
        ends[frame] = start - ends[frame]
    n = out_slots.shape[0]
    for i in range(slot_owners.shape[0]):
        frame = next_uses[np.uint64(i)]
        if frame != _NEVER:
            if ends[frame] < n:
                out_slots[ends[frame]] = i
            ends[frame] += 1
    return min(n, start)


@inner("void(int32[::1], uint64, Row[::1], Order, Node[::1])")
def put_idle(held, future, rows, order, nodes):
    """Put the slots of some entries into the victim order: those that are idle.

    Args:
        held: int32[n]; entry numbers.
        future: bits of the frames that are still to be planned.
        rows: of the view.
        order, nodes: the victim order.
    """
    last = held.shape[0] - 1
    for i in range(held.shape[0]):
        prefetch_row(held, i, rows)
        # what a slot needs is prefetched in turn: its row, its node, then the neighbours of that
        prefetch(nodes, np.uint64(max(np.int32(0), rows[np.uint64(held[min(i + 2 * _AHEAD, last)])]["slot"])))
        near = nodes[np.uint64(max(np.int32(0), rows[np.uint64(held[min(i + _AHEAD, last)])]["slot"]))]
        prefetch(nodes, np.uint64(max(np.int32(0), near["previous"])))
        prefetch(nodes, np.uint64(max(np.int32(0), near["next"])))
        row = rows[np.uint64(held[i])]
        if row["slot"] >= 0 and row["mask"] & future == _NONE:
            put_slot(row["slot"], row["frequency"], order, nodes)


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
    n = out_slots.shape[0]
    future = planner["unplanned"] & ~frame_bit(number)
    rows, owners, victims = view_of(planner).rows, slot_owners_of(planner), victims_of(planner)
    marks = array_at(planner["marks_at"], planner["device_rows"], np.uint8)
    if planner["victims_filled"] == 0:
        clear_order(victims.order[0], victims.nodes)
        put_idle(owners[owners >= 0], future, rows, victims.order[0], victims.nodes)
        planner["victims_filled"] = 1
    elif header_of(planner)["access_threshold"] >= 0:
        # a key of the batch that is not admitted, but has a row on the device, may lose its slot at once
        put_idle(record.held[record.slots < 0], future, rows, victims.order[0], victims.nodes)
    mark_slots(record.slots, 1, marks)
    chosen = np.int64(0)
    while chosen < n and victims.order[0]["count"] > 0:
        taken = take_least(out_slots[chosen:], victims)
        chosen += keep_idle(out_slots[chosen:chosen + taken], future, rows, marks, owners, out_slots[chosen:])
    if chosen < n:
        next_uses = array_at(planner["next_uses_at"], planner["device_rows"], np.uint8)
        chosen += take_farthest(future, np.uint64(oldest_in_window(planner) % MAX_FRAMES), rows, marks, owners,
                                next_uses, out_slots[chosen:])
    mark_slots(record.slots, 0, marks)
    if chosen < n:
        raise AssertionError("fewer rows can leave the device than must, although the batch fits it")


@inner("void(Planner, int32[::1])")
def release(planner, held):
    """Put the slots of some entries into the victim order: those that no frame to be planned needs.

    Args:
        planner: of the table.
        held: int32[n]; entry numbers.
    """
    if planner["victims_filled"] != 0:
        victims = victims_of(planner)
        put_idle(held, planner["unplanned"], view_of(planner).rows, victims.order[0], victims.nodes)
