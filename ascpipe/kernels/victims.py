"""The victim order: slots of a device table whose rows may go home, the least frequent first.

The order is exact: by score, equal scores by slot.  A slot is put in or dropped in constant time, and no
call reads all slots.  Slots are in doubly linked lists, one list per bucket:

* *fine* buckets hold one score each: a ring over ``FINE`` scores from the fine base upwards;
* *coarse* buckets hold a block of ``BLOCK`` scores each: a ring over ``COARSE`` blocks below the fine base;
* the *bottom* bucket holds all lower ones.

Scores grow with the tickets (see ``frequency``).  When one lies above the fine ring, the bases move on and the
buckets that fall behind are linked, whole, to those below.  A bucket is sorted when slots are taken from it,
not before; bits say which buckets hold a slot and which are in order.

Nodes 0 to rows - 1 are the slots, node rows + b is where the list of bucket b begins and ends.  Kernels take ``order``,
an ORDER, and ``nodes``, NODE[rows + BUCKETS].

The readable version is ``tests/reference/victims.py``.
"""
import numpy as np

from ascpipe.kernels.bits import lowest_bit
from ascpipe.kernels.door import inner
from ascpipe.kernels.records import VICTIM_BUCKETS as BUCKETS

BLOCK_SHIFT = 10
BLOCK = 1 << BLOCK_SHIFT
FINE = 4 * BLOCK
COARSE = 4096
_BOTTOM = FINE + COARSE  # the last bucket
_WORDS = (BUCKETS + 63) // 64

_DIGIT_BITS = 11
_DIGITS = 1 << _DIGIT_BITS
_FEW = 200  # fewer slots are sorted without counting
_SLOT = 0xFFFFFFFF  # the lower half of a number that is sorted

_ONE = np.uint64(1)
_LOW = np.uint64(63)
_NONE = np.uint64(0)


def scratch_cells(rows: int) -> int:
    """Cells of the array ``scratch`` for a table of ``rows`` slots."""
    return 2 * rows + _DIGITS


@inner("boolean(int64, Order)")
def _is_filled(bucket, order):
    return (order["filled"][bucket >> 6] >> (np.uint64(bucket) & _LOW)) & _ONE != _NONE


@inner("boolean(int64, Order)")
def _is_sorted(bucket, order):
    return (order["sorted"][bucket >> 6] >> (np.uint64(bucket) & _LOW)) & _ONE != _NONE


@inner("void(int64, boolean, Order)")
def _set_filled(bucket, yes, order):
    bit = _ONE << (np.uint64(bucket) & _LOW)
    if yes:
        order["filled"][bucket >> 6] |= bit
    else:
        order["filled"][bucket >> 6] &= ~bit


@inner("void(int64, boolean, Order)")
def _set_sorted(bucket, yes, order):
    bit = _ONE << (np.uint64(bucket) & _LOW)
    if yes:
        order["sorted"][bucket >> 6] |= bit
    else:
        order["sorted"][bucket >> 6] &= ~bit


@inner("void(Order, Node[::1])")
def clear_order(order, nodes):
    """Start with no slot in.

    Args:
        order, nodes: of any contents.
    """
    rows = nodes.shape[0] - BUCKETS
    for slot in range(rows):
        nodes[slot]["previous"] = -1
    for bucket in range(BUCKETS):
        nodes[rows + bucket]["previous"] = rows + bucket
        nodes[rows + bucket]["next"] = rows + bucket
    for word in range(_WORDS):
        order["filled"][word] = _NONE
        order["sorted"][word] = _NONE
    order["fine_base"] = 0
    order["coarse_base"] = -COARSE
    order["count"] = 0


@inner("boolean(int64, int64, Node[::1])")
def _before(a, b, nodes):
    """Whether slot a comes before slot b."""
    return nodes[a]["score"] < nodes[b]["score"] or (nodes[a]["score"] == nodes[b]["score"] and a < b)


@inner("int64(int64, Order)")
def _bucket_of(score, order):
    """Bucket of a score that does not lie above the fine ring."""
    if score >= order["fine_base"]:
        return score & (FINE - 1)
    block = score >> BLOCK_SHIFT
    if block >= order["coarse_base"]:
        return FINE + (block & (COARSE - 1))
    return _BOTTOM


@inner("void(int64, int64, Order, Node[::1])")
def _append(upper, lower, order, nodes):
    """Move the whole list of bucket ``upper`` to the end of that of bucket ``lower``."""
    rows = nodes.shape[0] - BUCKETS
    source, target = rows + upper, rows + lower
    first, last, end = nodes[source]["next"], nodes[source]["previous"], nodes[target]["previous"]
    in_order = _is_sorted(upper, order)
    if _is_filled(lower, order):
        in_order = in_order and _is_sorted(lower, order) and _before(end, first, nodes)
    _set_sorted(lower, in_order, order)
    _set_filled(lower, True, order)
    _set_filled(upper, False, order)
    nodes[end]["next"] = first
    nodes[first]["previous"] = end
    nodes[last]["next"] = target
    nodes[target]["previous"] = last
    nodes[source]["next"] = source
    nodes[source]["previous"] = source


@inner("void(int64, Order, Node[::1])")
def _move_bases(score, order, nodes):
    """Move the fine ring up to the block of ``score``, which lies above it."""
    fine_base = (score >> BLOCK_SHIFT << BLOCK_SHIFT) + BLOCK - FINE
    coarse_base = ((fine_base >> BLOCK_SHIFT) - COARSE + 63) >> 6 << 6
    known = order["coarse_base"]
    for block in range(known, min(coarse_base, known + COARSE)):
        if _is_filled(FINE + (block & (COARSE - 1)), order):
            _append(FINE + (block & (COARSE - 1)), _BOTTOM, order, nodes)
    order["coarse_base"] = coarse_base
    known = order["fine_base"]
    order["fine_base"] = fine_base
    for passed in range(known, min(fine_base, known + FINE)):
        if _is_filled(passed & (FINE - 1), order):
            _append(passed & (FINE - 1), _bucket_of(passed, order), order, nodes)


@inner("boolean(int64, Order, Node[::1])")
def drop_slot(slot, order, nodes):
    """Take a slot out of the order.  Idempotent.

    Args:
        slot: 0 to rows - 1.
        order, nodes: the order of victims.

    Returns:
        Whether it was in.
    """
    before = np.int64(nodes[slot]["previous"])
    if before < 0:
        return False
    after = np.int64(nodes[slot]["next"])
    nodes[before]["next"] = after
    nodes[after]["previous"] = before
    nodes[slot]["previous"] = -1
    if before == after:  # the list has no slot any more
        _set_filled(before - (nodes.shape[0] - BUCKETS), False, order)
    order["count"] -= 1
    return True


@inner("void(int64, int64, Order, Node[::1])")
def put_slot(slot, score, order, nodes):
    """Put a slot into the order; one that is in moves to its new score.

    Args:
        slot: 0 to rows - 1.
        score: any int32.
        order, nodes: the order of victims.
    """
    drop_slot(slot, order, nodes)
    if score >= order["fine_base"] + FINE:
        _move_bases(score, order, nodes)
    bucket = _bucket_of(score, order)
    node = nodes.shape[0] - BUCKETS + bucket
    nodes[slot]["score"] = score
    before, after = np.int64(nodes[node]["previous"]), node
    if before == node:
        _set_filled(bucket, True, order)
        _set_sorted(bucket, True, order)
    elif _is_sorted(bucket, order) and _before(slot, before, nodes):
        first = np.int64(nodes[node]["next"])
        if _before(slot, first, nodes):
            before, after = node, first
        else:
            _set_sorted(bucket, False, order)
    nodes[slot]["previous"] = before
    nodes[slot]["next"] = after
    nodes[before]["next"] = slot
    nodes[after]["previous"] = slot
    order["count"] += 1


@inner("int64(int64, int64, Order)")
def _first_filled(start, ring, order):
    """The first bucket that holds a slot in a ring of 4,096 buckets from ``ring``, or -1.

    Args:
        start: where in the ring to begin, a multiple of 64.
        ring: number of its first bucket.
        order: which buckets hold slots.
    """
    for i in range(64):
        word = (ring >> 6) + (((start >> 6) + i) & 63)
        if order["filled"][word] != _NONE:
            return (word << 6) + np.int64(lowest_bit(order["filled"][word]))
    return -1


@inner("int64(Order)")
def _least_bucket(order):
    """The bucket with the least slot; one holds a slot."""
    if _is_filled(_BOTTOM, order):
        return _BOTTOM
    bucket = _first_filled(order["coarse_base"] & (COARSE - 1), FINE, order)
    if bucket < 0:
        bucket = _first_filled(order["fine_base"] & (FINE - 1), 0, order)
    return bucket


@inner("int64(int64, int64[::1])")
def _sort_numbers(n, scratch):
    """Sort the first n numbers by a radix sort with digits of 11 bits; digits that all numbers share are skipped.

    Returns:
        Where in ``scratch`` the sorted numbers begin.
    """
    counts = scratch[scratch.shape[0] - _DIGITS:]
    source, target = 0, n
    different = np.int64(0)
    for i in range(n):
        different |= scratch[i] ^ scratch[0]
    for shift in range(0, 64, _DIGIT_BITS):
        if (different >> shift) & (_DIGITS - 1) == 0:
            continue
        # the highest digit has the sign: those below 0 come before the others
        lift = _DIGITS // 2 if shift + _DIGIT_BITS >= 64 else 0
        counts[:] = 0
        for i in range(source, source + n):
            counts[((scratch[i] >> shift) + lift) & (_DIGITS - 1)] += 1
        begin = target
        for digit in range(_DIGITS):
            begin, counts[digit] = begin + counts[digit], begin
        for i in range(source, source + n):
            digit = ((scratch[i] >> shift) + lift) & (_DIGITS - 1)
            scratch[counts[digit]] = scratch[i]
            counts[digit] += 1
        source, target = target, source
    return source


@inner("UniTuple(int64, 2)(int64, Victims)")
def _sorted_slots(bucket, victims):
    """Write the slots of a bucket into scratch, in order.

    Returns:
        (how many there are, where in ``scratch`` they begin); the lower half of each number is a slot.
    """
    nodes, scratch = victims.nodes, victims.scratch
    end = nodes.shape[0] - BUCKETS + bucket
    n = 0
    first, last = np.int64(nodes[end]["next"]), np.int64(nodes[end]["previous"])
    while True:  # from both ends: each step waits for memory, and so two of them wait together
        scratch[n] = (np.int64(nodes[first]["score"]) << 32) | first
        n += 1
        if first == last:
            break
        scratch[n] = (np.int64(nodes[last]["score"]) << 32) | last
        n += 1
        first = np.int64(nodes[first]["next"])
        if first == last:
            break
        last = np.int64(nodes[last]["previous"])
    if n < _FEW:
        scratch[:n].sort()
        return n, 0
    return n, _sort_numbers(n, scratch)


@inner("int64(int64, int32[::1], Victims)")
def _take_unsorted(bucket, out_slots, victims):
    """Take the least slots out of a bucket that is not in order, as many as ``out_slots`` has items; the rest is in
    order afterwards.

    Returns:
        How many were taken: fewer if the bucket had fewer, and then it is empty.
    """
    order, nodes, scratch = victims.order[0], victims.nodes, victims.scratch
    end = nodes.shape[0] - BUCKETS + bucket
    n, first = _sorted_slots(bucket, victims)
    taken = min(n, np.int64(out_slots.shape[0]))
    for i in range(taken):
        slot = scratch[first + i] & _SLOT
        out_slots[i] = slot
        nodes[slot]["previous"] = -1
    before = end
    for i in range(first + taken, first + n):
        node = scratch[i] & _SLOT
        nodes[before]["next"] = node
        nodes[node]["previous"] = before
        before = node
    nodes[before]["next"] = end
    nodes[end]["previous"] = before
    _set_sorted(bucket, True, order)
    if taken == n:
        _set_filled(bucket, False, order)
    return taken


@inner("int64(int64, int32[::1], Victims)")
def _take_sorted(bucket, out_slots, victims):
    """The same of a bucket that is in order."""
    order, nodes = victims.order[0], victims.nodes
    n, taken = np.int64(out_slots.shape[0]), 0
    end = nodes.shape[0] - BUCKETS + bucket
    node = np.int64(nodes[end]["next"])
    while taken < n and node != end:
        out_slots[taken] = node
        nodes[node]["previous"] = -1
        taken += 1
        node = np.int64(nodes[node]["next"])
    nodes[end]["next"] = node
    nodes[node]["previous"] = end
    if node == end:
        _set_filled(bucket, False, order)
    return taken


@inner("int64(int32[::1], Victims)")
def take_least(out_slots, victims):
    """Take the least slots out of the order, as many as ``out_slots`` has items.

    Args:
        out_slots: int32[n]; receives the slots, in order.
        victims: the order, and scratch.

    Returns:
        How many were taken: n, or all that were in if those are fewer.
    """
    order = victims.order[0]
    n = min(np.int64(out_slots.shape[0]), order["count"])
    taken = np.int64(0)
    while taken < n:
        bucket = _least_bucket(order)
        if _is_sorted(bucket, order):
            taken += _take_sorted(bucket, out_slots[taken:n], victims)
        else:
            taken += _take_unsorted(bucket, out_slots[taken:n], victims)
    order["count"] -= n
    return n


@inner("void(int32[::1], int32[::1], Order, Node[::1])")
def put_slots(slots, scores, order, nodes):
    """Put each slot into the order; one that is in moves to its new score.

    Args:
        slots: int32[n]; 0 to rows - 1.
        scores: int32[n].
        order, nodes: the order of victims.
    """
    for i in range(slots.shape[0]):
        put_slot(slots[i], scores[i], order, nodes)
