"""Chooses the rows that leave the device when a batch needs more slots than are free.

A slot is *idle* when no frame that is still to be planned uses its row.  Once a table has chosen victims, its victim
order (see ``victims``) has all slots in use: first the idle ones, the least frequent first, then the others, the
farthest next use first; equal ones by slot.

When a frame is planned, its rows may go earlier than before: their slots are ranked anew at once.  When a frame is
touched, its rows go later than before: their slots keep a score that is too low until they are taken out.  So a touch
costs nothing, and few slots that it meets are ever taken.  The readable version is ``tests/reference/swaps.py``.
"""
import numpy as np

from ascpipe.kernels.bits import frame_bit, lowest_bit
from ascpipe.kernels.door import inner
from ascpipe.kernels.memory import array_at
from ascpipe.kernels.planner_memory import entries_of, header_of, held_rows_of, slot_owners_of, victims_of, view_of
from ascpipe.kernels.prefetch import prefetch, prefetch_end
from ascpipe.kernels.victims import SLOT_MASK, clear_order, drop_slot, expect_slots, put_slot, take_least
from ascpipe.kernels.view import prefetch_row
from ascpipe.layout.structs import MAX_FRAMES

_NONE = np.uint64(0)
_TURN = np.uint64(63)
_AHEAD = 8  # slots between the one at hand and the one whose memory is prefetched
_LEAST_IDLE = 1 - 2**31  # score of an idle slot whose row has frequency 0; the most frequent one has 0
_FIRST_USE = 2**31 - 1  # score of a slot that is used next by frame ``first_use``; later frames have less
MOST_USES = 2**30  #: frames from ``first_use`` on, after which the order is made anew: their scores stay above 0


@inner("int32(int32, uint64, int64, int64)")
def score_of(frequency, uses, newest, first_use):
    """Score of a slot in the victim order.

    Args:
        frequency: of its row.
        uses: bits of the frames that use the row and are still to be planned; none = it is idle.
        newest: number of the newest frame of the window.
        first_use: number of a frame, not above any in the window and about ``MOST_USES`` below at most.
    """
    if uses == _NONE:
        return np.int32(_LEAST_IDLE + np.int64(frequency))
    oldest = newest - MAX_FRAMES + 1
    turn = np.uint64(oldest % MAX_FRAMES)
    turned = (uses >> turn) | (uses << ((np.uint64(MAX_FRAMES) - turn) & _TURN))  # the oldest frame's bit first
    return np.int32(_FIRST_USE - (oldest + np.int64(lowest_bit(turned)) - first_use))


@inner("void(Planner, int32[::1], uint64)")
def rank_slots(planner, listed, future):
    """Put the slots of some entries into the victim order, or move them to where they belong now, once there is one.

    Args:
        planner: of the table.
        listed: int32[n]; rows of the view; those without a slot are passed over.
        future: bits of the frames that are still to be planned.
    """
    if planner["victims_filled"] == 0:
        return
    rows, victims = view_of(planner).rows, victims_of(planner)
    newest, first_use = planner["newest"], planner["first_use"]
    expect_slots(listed.shape[0], victims)
    for i in range(listed.shape[0]):
        prefetch_row(listed, i, rows)
        near = rows[np.uint64(listed[np.uint64(min(i + _AHEAD, listed.shape[0] - 1))])]["slot"]
        prefetch(victims.scores, np.uint64(max(np.int32(0), near)))
        row = rows[np.uint64(listed[np.uint64(i)])]
        score = score_of(row["frequency"], row["mask"] & future, newest, first_use)
        put_slot(row["slot"], score, row["slot"] >= 0, victims)


@inner("void(Planner)")
def rank_all(planner):
    """Make the victim order: of all slots in use.

    Args:
        planner: of the table, which has memory for it.
    """
    entries, owners, view, victims = entries_of(planner), slot_owners_of(planner), view_of(planner), victims_of(planner)
    clear_order(victims)
    planner["victims_filled"] = 1
    newest = planner["newest"]
    first_use = planner["first_use"] = newest - MAX_FRAMES + 1
    for slot in range(owners.shape[0]):
        near = owners[min(slot + _AHEAD, owners.shape[0] - 1)]
        prefetch_end(entries, np.uint64(max(np.int32(0), near)))
        if owners[slot] >= 0:
            score = score_of(entries[np.uint64(owners[slot])]["frequency"], _NONE, newest, first_use)
            put_slot(slot, score, True, victims)
    for number in range(planner["rows_used"]):
        row = view.rows[number]
        if row["mask"] != _NONE and row["slot"] >= 0:  # what the truth says of it is old, or it is used
            put_slot(row["slot"], score_of(row["frequency"], row["mask"] & planner["unplanned"], newest, first_use),
                     True, victims)


@inner("int32(Planner, View, int64, uint64)")
def true_score(planner, view, owner, future):
    """Score of a slot as it is now.

    Args:
        planner, view: of the table.
        owner: entry number.
        future: bits of the frames that are still to be planned.
    """
    known = entries_of(planner)[np.uint64(owner)]
    found = view.row_of[np.uint64(owner)]
    newest, first_use = planner["newest"], planner["first_use"]
    if found == 0:
        return score_of(known["frequency"], _NONE, newest, first_use)
    row = view.rows[np.uint64(found - 1)]
    return score_of(row["frequency"], row["mask"] & future, newest, first_use)


@inner("int64(Planner, uint64, int64[::1])")
def keep_least(planner, future, numbers):
    """Of slots that were taken out of the victim order, keep those that come before all that are still in it.

    Put back are those whose score was too low, with the right one, and those that come after one of them.

    Args:
        planner: of the table.
        future: bits of the frames that are still to be planned.
        numbers: int64[n]; scores and slots as ``take_least`` gives them; the first ones receive what is kept.

    Returns:
        How many are kept.
    """
    entries, view, owners, victims = entries_of(planner), view_of(planner), slot_owners_of(planner), victims_of(planner)
    n = numbers.shape[0]
    expect_slots(n, victims)
    least, kept = np.int64(2**63 - 1), 0  # least: of those that are put back
    for i in range(n):
        near = np.uint64(numbers[np.uint64(min(i + _AHEAD, n - 1))] & SLOT_MASK)
        prefetch_end(entries, np.uint64(owners[near]))  # where the frequency is
        prefetch(view.row_of, np.uint64(owners[near]))
        slot = numbers[i] & SLOT_MASK
        score = np.int64(true_score(planner, view, owners[slot], future))
        if score == numbers[i] >> 32:
            numbers[kept] = numbers[i]
            kept += 1
        else:
            put_slot(slot, score, True, victims)
            least = min(least, score << 32 | slot)
    while kept > 0 and numbers[kept - 1] > least:
        kept -= 1
        put_slot(numbers[kept] & SLOT_MASK, numbers[kept] >> 32, True, victims)
    return kept


@inner("void(Planner, int32[::1])")
def drop_slots(planner, slots):
    """Take slots out of the victim order, once there is one.

    Args:
        planner: of the table.
        slots: int32[n]; -1 is passed over.
    """
    if planner["victims_filled"] != 0:
        victims = victims_of(planner)
        for i in range(slots.shape[0]):
            drop_slot(slots[i], victims)


@inner("void(Planner, int64, Record, int32[::1])")
def choose_victims(planner, number, record, out_slots):
    """Choose rows that leave the device for those that move in.

    First rows that no other frame needs, the least frequent first, then the lowest slot; then those whose next use is
    farthest, then the lowest slot.  The slots of the batch's own rows leave the order until the batch is planned.

    Args:
        planner: of the table, which has memory for a victim order.
        number: of the frame.
        record: its keys, and the slots of those that are on the device, -1 for the others.
        out_slots: int32[n]; receives the slots; n rows can leave.
    """
    future, victims = planner["unplanned"] & ~frame_bit(number), victims_of(planner)
    if planner["victims_filled"] == 0 or planner["newest"] - planner["first_use"] > MOST_USES:
        rank_all(planner)
    if header_of(planner)["access_threshold"] >= 0:
        # a key of the batch that is not admitted, but has a row on the device, may lose its slot at once
        rank_slots(planner, held_rows_of(planner, number)[record.slots < 0], future)
    drop_slots(planner, record.slots)
    n, chosen = out_slots.shape[0], 0
    numbers = array_at(planner["freed_keys_at"], n, np.int64)  # scratch
    while chosen < n:
        taken = take_least(numbers[chosen:], victims)
        if taken == 0:
            raise AssertionError("fewer rows can leave the device than must, although the batch fits it")
        chosen += keep_least(planner, future, numbers[chosen:chosen + taken])
    for i in range(n):
        out_slots[i] = numbers[i] & SLOT_MASK
