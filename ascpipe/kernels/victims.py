"""Victim order: a queue of slots, sorted by score. The row whose slot has the lowest score leaves first (see
``rescoring``).

The order is exact: slots are ordered by score, then by number. Adding or dropping a slot stores one score. Nothing is
sorted until a slot is taken. Then the slots with scores up to a *bound*, about one in eight, are collected and sorted.
They are the *run*. Slots with scores up to the bound that are added later are *late*. They are sorted when slots are
taken next. The least slot is the first slot of the run or the first late slot.

Run and late slots are stored as numbers, which contain score and slot in one int64. A number is skipped if its slot now
has another score, so no search is needed. When the run and the late slots are used up, or there are too many late
slots, a new bound is chosen from a sample of the scores. The bound determines only how many slots are collected. It
does not affect which slot is the least.

The plain-Python version is ``tests/reference/victims.py``.
"""
import numpy as np

from ascpipe.kernels.door import inner
from ascpipe.kernels.prefetch import prefetch
from ascpipe.kernels.records import MOST_SORTED

NOT_IN = np.int32(-2**31)  #: score of a slot that is not in the order
_PART = 8  # about one slot in eight is collected; in a large table, about MOST_SORTED slots are collected
_RANK = 32  # number of scores of the sample that are below the bound
_AHEAD = 8  # prefetch distance in numbers
_DIGIT_BITS = 8
_DIGITS = 1 << _DIGIT_BITS
_FEW = 64  # if there are fewer numbers, they are sorted without counting
SLOT_MASK = np.int64(0xFFFFFFFF)  #: mask of the slot in a number
_END = np.int64(2**63 - 1)  # above every number


@inner("void(Victims)")
def clear_order(victims):
    """Remove all slots from an order."""
    victims.scores[:] = NOT_IN
    _forget_numbers(victims.order[0])


@inner("void(Order)")
def _forget_numbers(order):
    """Drop the run and the late slots of a victim order. The dropped slots stay in the victim order and are collected
    again later.
    """
    order["bound"] = NOT_IN
    order["run_next"] = 0
    order["run_end"] = 0
    order["late_next"] = 0
    order["late_end"] = 0
    order["late_sorted"] = 0


@inner("void(int64, Victims)")
def expect_slots(n, victims):
    """Make space for ``n`` more late slots, so that ``put_slot`` can be called ``n`` times."""
    order = victims.order[0]
    if 2 * (order["late_end"] + n) >= victims.late.shape[0]:
        _forget_numbers(order)


@inner("void(int64, int64, boolean, Victims)")
def put_slot(slot, score, yes, victims):
    """Add a slot to the order, or update the score of the slot. Call ``expect_slots`` first.

    There is no branch, because ``yes`` is hard to predict. It is true for about half of all slots.

    Args:
        slot: 0 to rows - 1, or any number if ``yes`` is false.
        score: any int32 above ``NOT_IN``.
        yes: whether to add the slot.
        victims: the order.
    """
    order = victims.order[0]
    scores = victims.scores
    scores[np.uint64(slot if yes else scores.shape[0] - 1)] = score
    end = order["late_end"]
    victims.late[np.uint64(end)] = (np.int64(score) << 32) | slot
    order["late_end"] = end + np.int64(yes & (score <= order["bound"]))


@inner("void(int64, Victims)")
def drop_slot(slot, victims):
    """Remove a slot from the order. Do nothing if ``slot`` is -1. The function is idempotent."""
    victims.scores[np.uint64(slot if slot >= 0 else victims.scores.shape[0] - 1)] = NOT_IN


@inner("void(int64, int64, int64[::1])")
def _sort(n, low, numbers):
    """Sort the first n numbers by a radix sort. The numbers must already be sorted by the bits below bit ``low``.

    Digits that all numbers share are skipped. The second half of ``numbers`` is scratch.
    """
    if n < _FEW:
        numbers[:n].sort()
        return
    source = np.int64(0)
    target = np.int64(numbers.shape[0] // 2)
    different = np.int64(0)
    for i in range(n):
        different |= numbers[i] ^ numbers[0]
    for shift in range(low, 64, _DIGIT_BITS):
        if (different >> shift) & (_DIGITS - 1) == 0:
            continue
        # the highest digit has the sign; negative numbers must be first
        lift = _DIGITS // 2 if shift + _DIGIT_BITS == 64 else 0
        counts = np.zeros(_DIGITS, np.int64)
        begin = target
        for i in range(source, source + n):
            counts[np.uint64(((numbers[np.uint64(i)] >> shift) + lift) & (_DIGITS - 1))] += 1
        for digit in range(_DIGITS):
            begin, counts[digit] = begin + counts[digit], begin
        for i in range(source, source + n):
            number = numbers[np.uint64(i)]
            digit = np.uint64(((number >> shift) + lift) & (_DIGITS - 1))
            numbers[np.uint64(counts[digit])] = number
            counts[digit] += 1
        source, target = target, source
    if source > 0:
        numbers[:n] = numbers[source:source + n]


@inner("void(Victims)")
def _sort_late(victims):
    """Sort the late slots. Drop slots that are no longer in the order, or whose scores have changed."""
    order = victims.order[0]
    scores = victims.scores
    late = victims.late
    n = 0
    for i in range(order["late_next"], order["late_end"]):
        number = late[np.uint64(i)]
        late[np.uint64(n)] = number  # the next number overwrites it if it is not counted, so no branch is needed
        n += np.int64(scores[np.uint64(number & SLOT_MASK)] == number >> 32)
    _sort(n, 0, late)
    order["late_next"] = 0
    order["late_end"] = n
    order["late_sorted"] = n


@inner("int64(Victims)")
def _collect(victims):
    """Choose a bound, and build the run from all slots up to the bound. Return the number of slots in the run."""
    order = victims.order[0]
    scores = victims.scores
    numbers = victims.numbers
    rows = victims.scores.shape[0] - 1
    sample = np.full(_RANK * max(_PART, rows // MOST_SORTED), 2**31 - 1, np.int32)
    for i in range(min(rows, sample.shape[0])):
        score = scores[i * max(1, rows // sample.shape[0])]
        if score != NOT_IN:
            sample[i] = score
    bound = np.int64(np.partition(sample, _RANK)[_RANK])
    n = 0
    for i in range(rows):
        score = np.int64(scores[np.uint64(i)])
        numbers[np.uint64(n)] = (score << 32) | i
        n += np.int64((score <= bound) & (score > NOT_IN))
    _sort(n, 32, numbers)
    _forget_numbers(order)
    order["bound"] = bound
    order["run_end"] = n
    return n


@inner("int64(int64[::1], Victims)")
def take_least(out_numbers, victims):
    """Remove the n slots with the lowest scores from the order.

    Args:
        out_numbers: int64[n]; receives the numbers of these slots in order: score << 32 | slot.
        victims: the order.

    Returns:
        Number of slots: n, or fewer if the order had fewer slots.
    """
    order = victims.order[0]
    _, scores, numbers, late = victims
    if order["late_sorted"] < order["late_end"]:
        _sort_late(victims)
    taken = np.int64(0)
    run = order["run_next"]
    of_late = order["late_next"]
    # local copies, because the compiler must assume that a store changes the fields
    run_end = order["run_end"]
    late_end = order["late_end"]
    while taken < out_numbers.shape[0]:
        first = numbers[np.uint64(run)] if run < run_end else _END
        number = min(first, late[np.uint64(of_late)]) if of_late < late_end else first
        if number == _END:
            run = np.int64(0)
            run_end = _collect(victims)
            of_late = np.int64(0)
            late_end = np.int64(0)
            if run_end == 0:
                break
            continue
        run += np.int64(number == first)
        of_late += np.int64(number != first)
        prefetch(scores, np.uint64(numbers[np.uint64(min(run + _AHEAD, numbers.shape[0] - 1))] & SLOT_MASK))
        slot = np.uint64(number & SLOT_MASK)
        if scores[slot] == number >> 32:
            scores[slot] = NOT_IN
            out_numbers[np.uint64(taken)] = number
            taken += 1
    order["run_next"] = run
    order["late_next"] = of_late
    return taken
