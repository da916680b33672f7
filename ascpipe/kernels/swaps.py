"""Kernels that choose the rows that leave the device if a batch needs more slots than are free.

A slot is *idle* if no frame that is still to be planned uses its row. After the first choice, the victim order (see
``victims``) contains all slots in use. Idle slots are first, the least frequent first. The other slots follow, farthest
next use first. Equal slots are ordered by number.

Planning a frame may move its slots forward in the order, so they are ranked again immediately. Touching a frame moves
its slots back. Their scores stay too low until the slots are taken out (see ``rescoring``).

The plain-Python version is ``tests/reference/swaps.py``.
"""
import numpy as np

from ascpipe.kernels.bits import frame_bit
from ascpipe.kernels.door import inner
from ascpipe.kernels.memory import array_at
from ascpipe.kernels.planner_memory import entries_of, header_of, held_rows_of, slot_owners_of, victims_of, view_of
from ascpipe.kernels.prefetch import prefetch, prefetch_end
from ascpipe.kernels.rescoring import AHEAD, MOST_USES, score_of, take_victims
from ascpipe.kernels.victims import clear_order, drop_slot, expect_slots, put_slot
from ascpipe.kernels.view import prefetch_row
from ascpipe.layout.structs import MAX_FRAMES

_NONE = np.uint64(0)


@inner("void(Planner, int32[::1], uint64)")
def rank_slots(planner, listed, future):
    """Add the slots of rows to the victim order, or update the scores of the slots. Do nothing if no order exists yet.

    Args:
        planner: planner of the table.
        listed: int32[n]; rows of the view. Rows without a slot are skipped.
        future: bits of the frames that are still to be planned.
    """
    if planner["victims_filled"] == 0:
        return
    rows = view_of(planner).rows
    victims = victims_of(planner)
    newest = planner["newest"]
    first_use = planner["first_use"]
    expect_slots(listed.shape[0], victims)
    for i in range(listed.shape[0]):
        prefetch_row(listed, i, rows)
        later = rows[np.uint64(listed[np.uint64(min(i + AHEAD, listed.shape[0] - 1))])]["slot"]
        prefetch(victims.scores, np.uint64(max(np.int32(0), later)))
        row = rows[np.uint64(listed[np.uint64(i)])]
        score = score_of(row["frequency"], row["mask"] & future, newest, first_use)
        put_slot(row["slot"], score, row["slot"] >= 0, victims)


@inner("void(Planner)")
def rank_all(planner):
    """Create the victim order of all slots in use. The planner must have memory for a victim order."""
    entries = entries_of(planner)
    owners = slot_owners_of(planner)
    view = view_of(planner)
    victims = victims_of(planner)
    clear_order(victims)
    planner["victims_filled"] = 1
    newest = planner["newest"]
    first_use = planner["first_use"] = newest - MAX_FRAMES + 1
    for slot in range(owners.shape[0]):
        later = owners[min(slot + AHEAD, owners.shape[0] - 1)]
        prefetch_end(entries, np.uint64(max(np.int32(0), later)))
        if owners[slot] >= 0:
            score = score_of(entries[np.uint64(owners[slot])]["frequency"], _NONE, newest, first_use)
            put_slot(slot, score, True, victims)
    for number in range(planner["rows_used"]):
        row = view.rows[number]
        if row["mask"] != _NONE and row["slot"] >= 0:  # the truth is outdated, or a frame uses the row
            put_slot(row["slot"], score_of(row["frequency"], row["mask"] & planner["unplanned"], newest, first_use),
                     True, victims)


@inner("void(Planner, int32[::1])")
def drop_slots(planner, slots):
    """Remove slots from the victim order, if the order has been created. Slots of -1 are skipped."""
    if planner["victims_filled"] != 0:
        victims = victims_of(planner)
        for i in range(slots.shape[0]):
            drop_slot(slots[i], victims)


@inner("void(Planner, int64, Record, int32[::1])")
def choose_victims(planner, number, record, out_slots):
    """Choose rows that leave the device, so that other rows can move in.

    Rows that no other unplanned frame needs are first, the least frequent first. The other rows follow, farthest next
    use first. Equal rows are ordered by slot. The slots of the batch's rows leave the order until the batch is planned.

    Args:
        planner: planner of the table, with memory for a victim order.
        number: number of the frame.
        record: record with the keys, and the slots of keys on the device. The slots of other keys are -1.
        out_slots: int32[n]; receives the slots. The caller ensures that n rows can leave.
    """
    future = planner["unplanned"] & ~frame_bit(number)
    victims = victims_of(planner)
    if planner["victims_filled"] == 0 or planner["newest"] - planner["first_use"] > MOST_USES:
        rank_all(planner)
    if header_of(planner)["access_threshold"] >= 0:
        # keys of the batch that are not admitted but have a slot may lose the slot immediately
        rank_slots(planner, held_rows_of(planner, number)[record.slots < 0], future)
    drop_slots(planner, record.slots)
    n = out_slots.shape[0]
    numbers = array_at(planner["freed_keys_at"], n, np.int64)  # scratch
    if take_victims(planner, slot_owners_of(planner), future, planner["first_use"], victims, numbers) < n:
        raise AssertionError("fewer rows can leave the device than must, although the batch fits it")
    for i in range(n):
        out_slots[i] = numbers[i]
