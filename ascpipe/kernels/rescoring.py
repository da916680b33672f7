"""Priority queue with lazy re-scoring. The queue determines which rows leave the device or memory first.

``victims`` is the queue. Its order is exact for the stored scores, but a stored score may be too low. A touch
makes a row more valuable, but does not update the score, because only a few touched rows are ever taken.
Therefore, each row that is taken is scored again. If its score was too low, the row is put back with the
correct score, together with the rows that now follow it.

    score << 32 | slot, as one int64 that sorts by both:

    63                             32 31                              0
    +--------------------------------+--------------------------------+
    |             score              |      slot, or home row         |
    +--------------------------------+--------------------------------+
        -2^31                  not in the queue
        -2^31 + 1 ... 0        idle: no frame ahead uses the row; by frequency, the least frequent first
        1 ... 2^31 - 1         used by a frame ahead; by its number, the farthest next use first

A *frame ahead* is a frame of the window that will still use the row. For the device, it is a frame that is not
planned yet. For memory, it is a frame that is not pinned yet.

The plain-Python version is ``tests/reference/rescoring.py``.
"""
import numpy as np

from ascpipe.kernels.bits import lowest_bit
from ascpipe.kernels.door import inner
from ascpipe.kernels.planner_memory import entries_of, view_of
from ascpipe.kernels.prefetch import prefetch, prefetch_end
from ascpipe.kernels.victims import SLOT_MASK, expect_slots, put_slot, take_least
from ascpipe.layout.structs import MAX_FRAMES

_NONE = np.uint64(0)
_TURN = np.uint64(63)
AHEAD = 8  #: prefetch distance in slots
_LEAST_IDLE = 1 - 2**31  # score of an idle slot whose row has frequency 0; the highest frequency has score 0
_FIRST_USE = 2**31 - 1  # score of a slot that frame ``first_use`` uses next; later frames have lower scores
MOST_USES = 2**30  #: frames after ``first_use`` until the queue is refilled; keeps scores of used slots above 0


@inner("int32(int32, uint64, int64, int64)")
def score_of(frequency, uses, newest, first_use):
    """Return the score with which a row is put into the queue.

    Args:
        frequency: frequency of the row.
        uses: bits of the frames ahead that use the row. The row is idle if no bit is set.
        newest: number of the newest frame of the window.
        first_use: frame number to which scores are relative. It is not above any frame of the window, and at
            most about ``MOST_USES`` below.
    """
    if uses == _NONE:
        return np.int32(_LEAST_IDLE + np.int64(frequency))
    oldest = newest - MAX_FRAMES + 1
    turn = np.uint64(oldest % MAX_FRAMES)
    turned = (uses >> turn) | (uses << ((np.uint64(MAX_FRAMES) - turn) & _TURN))  # bit 0 is the oldest frame
    return np.int32(_FIRST_USE - (oldest + np.int64(lowest_bit(turned)) - first_use))


@inner("int32(Planner, View, int64, uint64, int64)")
def true_score(planner, view, owner, ahead, first_use):
    """Return the current score of an entry's row.

    Args:
        planner, view: state of the table.
        owner: entry number.
        ahead: bits of the frames ahead.
        first_use: frame number to which scores are relative.
    """
    newest = planner["newest"]
    found = view.row_of[np.uint64(owner)]
    if found == 0:
        return score_of(entries_of(planner)[np.uint64(owner)]["frequency"], _NONE, newest, first_use)
    row = view.rows[np.uint64(found - 1)]
    return score_of(row["frequency"], row["mask"] & ahead, newest, first_use)


@inner("int64(Planner, int32[::1], uint64, int64, Victims, int64[::1])")
def keep_least(planner, owners, ahead, first_use, victims, numbers):
    """Recompute the scores of rows that were taken from the queue. Keep only the rows that still have the lowest
    scores.

    A row whose score was too low is put back with the correct score. The rows that follow it are also put back.

    Args:
        planner: planner of the table.
        owners: int32[slots]; entry whose row is in each slot.
        ahead: bits of the frames ahead.
        first_use: frame number to which scores are relative.
        victims: the queue.
        numbers: int64[n]; scores and slots from ``take_least``. The first items receive the kept numbers.

    Returns:
        Number of kept rows.
    """
    entries = entries_of(planner)
    view = view_of(planner)
    n = numbers.shape[0]
    expect_slots(n, victims)
    least = np.int64(2**63 - 1)  # lowest number that was put back
    kept = 0
    for i in range(n):
        later = np.uint64(numbers[np.uint64(min(i + AHEAD, n - 1))] & SLOT_MASK)
        prefetch_end(entries, np.uint64(owners[later]))  # cache line of the frequency
        prefetch(view.row_of, np.uint64(owners[later]))
        slot = numbers[i] & SLOT_MASK
        score = np.int64(true_score(planner, view, owners[slot], ahead, first_use))
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


@inner("int64(Planner, int32[::1], uint64, int64, Victims, int64[::1])")
def take_victims(planner, owners, ahead, first_use, victims, out_slots):
    """Choose the rows that leave the device or memory next, and remove these rows from the queue.

    Args:
        planner, owners, ahead, first_use, victims: see ``keep_least``.
        out_slots: int64[n]; receives the slots of these rows, in order.

    Returns:
        Number of slots: n, or fewer if the queue had fewer slots.
    """
    n = out_slots.shape[0]
    chosen = np.int64(0)
    while chosen < n:
        taken = take_least(out_slots[chosen:], victims)
        if taken == 0:
            break
        chosen += keep_least(planner, owners, ahead, first_use, victims, out_slots[chosen:chosen + taken])
    for i in range(chosen):
        out_slots[i] &= SLOT_MASK
    return chosen
