"""Slots of a device table whose rows may go home, the least frequent first.

The order is exact: by score, equal scores by slot.  A slot is put in or dropped in constant time, and no
call looks at all slots.  Slots hang in doubly linked lists, one list a bucket:

* *fine* buckets hold one score each: a ring over ``FINE`` scores from the fine base upwards;
* *coarse* buckets hold a block of ``BLOCK`` scores each: a ring over ``COARSE`` blocks below the fine base;
* the *bottom* bucket holds all lower ones.

Scores grow with the tickets (see ``frequency``).  When one lies above the fine ring, the bases move on and the
buckets that fall behind are linked, whole, to those below.  A bucket is sorted when slots are taken from it,
not before; bits say which buckets hold a slot and which are in order.

Nodes 0 to rows - 1 are the slots, node rows + b is where the list of bucket b begins and ends.

The readable version is ``tests/reference/victims.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.bits import lowest_bit

BLOCK_SHIFT = 10
BLOCK = 1 << BLOCK_SHIFT
FINE = 4 * BLOCK
COARSE = 4096
_BOTTOM = FINE + COARSE
BUCKETS = _BOTTOM + 1
_WORDS = (BUCKETS + 63) // 64

# columns of ``nodes``
PREVIOUS, NEXT, SCORE = range(3)  # PREVIOUS is -1 for a slot that is not in
_COLUMNS = 4  # the last one is unused: a node never straddles two cache lines
# rows of ``words``
_FILLED, _SORTED = range(2)
# places of ``state``
FINE_BASE, COARSE_BASE, COUNT = range(3)  # a score, a multiple of BLOCK; a block number, a multiple of 64; slots in

_DIGIT_BITS = 11
_DIGITS = 1 << _DIGIT_BITS
_FEW = 200  # so many slots are sorted without counting

_ONE = np.uint64(1)
_LOW = np.uint64(63)
_NONE = np.uint64(0)


def scratch_cells(rows: int) -> int:
    """Cells of the array ``scratch`` for a table of ``rows`` slots."""
    return 2 * rows + _DIGITS


@njit("boolean(int64, int64, uint64[:, ::1])", cache=True, nogil=True)
def _has(row, bucket, words):
    return (words[row, bucket >> 6] >> (np.uint64(bucket) & _LOW)) & _ONE != _NONE


@njit("void(int64, int64, boolean, uint64[:, ::1])", cache=True, nogil=True)
def _say(row, bucket, yes, words):
    bit = _ONE << (np.uint64(bucket) & _LOW)
    if yes:
        words[row, bucket >> 6] |= bit
    else:
        words[row, bucket >> 6] &= ~bit


@njit("void(int32[:, ::1], uint64[:, ::1], int64[::1])", cache=True, nogil=True)
def clear_order(nodes, words, state):
    """Start with no slot in.

    Args:
        nodes: int32[rows + BUCKETS, 4]; the lists.
        words: uint64[2, words]; which buckets hold a slot, which are in order.
        state: int64[3]; bases and count.
    """
    nodes[:, :] = -1
    rows = nodes.shape[0] - BUCKETS
    for bucket in range(BUCKETS):
        nodes[rows + bucket, PREVIOUS] = rows + bucket
        nodes[rows + bucket, NEXT] = rows + bucket
    words[:, :] = _NONE
    state[FINE_BASE] = 0
    state[COARSE_BASE] = -COARSE
    state[COUNT] = 0


@njit("boolean(int64, int64, int32[:, ::1])", cache=True, nogil=True)
def _before(a, b, nodes):
    """Whether slot a comes before slot b."""
    return nodes[a, SCORE] < nodes[b, SCORE] or (nodes[a, SCORE] == nodes[b, SCORE] and a < b)


@njit("int64(int64, int64[::1])", cache=True, nogil=True)
def _bucket_of(score, state):
    """Bucket of a score that does not lie above the fine ring."""
    if score >= state[FINE_BASE]:
        return score & (FINE - 1)
    block = score >> BLOCK_SHIFT
    if block >= state[COARSE_BASE]:
        return FINE + (block & (COARSE - 1))
    return _BOTTOM


@njit("void(int64, int64, int32[:, ::1], uint64[:, ::1])", cache=True, nogil=True)
def _append(upper, lower, nodes, words):
    """Move the whole list of bucket ``upper`` to the end of that of bucket ``lower``."""
    rows = nodes.shape[0] - BUCKETS
    source, target = rows + upper, rows + lower
    first, last, end = nodes[source, NEXT], nodes[source, PREVIOUS], nodes[target, PREVIOUS]
    in_order = _has(_SORTED, upper, words)
    if _has(_FILLED, lower, words):
        in_order = in_order and _has(_SORTED, lower, words) and _before(end, first, nodes)
    _say(_SORTED, lower, in_order, words)
    _say(_FILLED, lower, True, words)
    _say(_FILLED, upper, False, words)
    nodes[end, NEXT] = first
    nodes[first, PREVIOUS] = end
    nodes[last, NEXT] = target
    nodes[target, PREVIOUS] = last
    nodes[source, NEXT] = source
    nodes[source, PREVIOUS] = source


@njit("void(int64, int32[:, ::1], uint64[:, ::1], int64[::1])", cache=True, nogil=True)
def _move_bases(score, nodes, words, state):
    """Let the fine ring reach to the block of ``score``, which lies above it."""
    fine_base = (score >> BLOCK_SHIFT << BLOCK_SHIFT) + BLOCK - FINE
    coarse_base = ((fine_base >> BLOCK_SHIFT) - COARSE + 63) >> 6 << 6
    known = state[COARSE_BASE]
    for block in range(known, min(coarse_base, known + COARSE)):
        if _has(_FILLED, FINE + (block & (COARSE - 1)), words):
            _append(FINE + (block & (COARSE - 1)), _BOTTOM, nodes, words)
    state[COARSE_BASE] = coarse_base
    known = state[FINE_BASE]
    state[FINE_BASE] = fine_base
    for passed in range(known, min(fine_base, known + FINE)):
        if _has(_FILLED, passed & (FINE - 1), words):
            _append(passed & (FINE - 1), _bucket_of(passed, state), nodes, words)


@njit("boolean(int64, int32[:, ::1], uint64[:, ::1], int64[::1])", cache=True, nogil=True)
def drop_slot(slot, nodes, words, state):
    """Take a slot out of the order; nothing happens if it is not in.

    Args:
        slot: 0 to rows - 1.
        nodes, words, state: the order (see ``clear_order``).

    Returns:
        Whether it was in.
    """
    before = np.int64(nodes[slot, PREVIOUS])
    if before < 0:
        return False
    after = np.int64(nodes[slot, NEXT])
    nodes[before, NEXT] = after
    nodes[after, PREVIOUS] = before
    nodes[slot, PREVIOUS] = -1
    if before == after:  # the list has no slot any more
        _say(_FILLED, before - (nodes.shape[0] - BUCKETS), False, words)
    state[COUNT] -= 1
    return True


@njit("void(int64, int64, int32[:, ::1], uint64[:, ::1], int64[::1])", cache=True, nogil=True)
def put_slot(slot, score, nodes, words, state):
    """Put a slot into the order, or to its new place if it is in.

    Args:
        slot: 0 to rows - 1.
        score: any int32.
        nodes, words, state: the order (see ``clear_order``).
    """
    drop_slot(slot, nodes, words, state)
    if score >= state[FINE_BASE] + FINE:
        _move_bases(score, nodes, words, state)
    bucket = _bucket_of(score, state)
    node = nodes.shape[0] - BUCKETS + bucket
    nodes[slot, SCORE] = score
    before, after = np.int64(nodes[node, PREVIOUS]), node
    if before == node:
        _say(_FILLED, bucket, True, words)
        _say(_SORTED, bucket, True, words)
    elif _has(_SORTED, bucket, words) and _before(slot, before, nodes):
        first = np.int64(nodes[node, NEXT])
        if _before(slot, first, nodes):
            before, after = node, first
        else:
            _say(_SORTED, bucket, False, words)
    nodes[slot, PREVIOUS] = before
    nodes[slot, NEXT] = after
    nodes[before, NEXT] = slot
    nodes[after, PREVIOUS] = slot
    state[COUNT] += 1


@njit("int64(int64, int64, uint64[:, ::1])", cache=True, nogil=True)
def _first_filled(start, ring, words):
    """The first bucket that holds a slot in a ring of 4,096 buckets from ``ring``, or -1.

    Args:
        start: where in the ring to begin, a multiple of 64.
        ring: number of its first bucket.
        words: see ``clear_order``.
    """
    for i in range(64):
        word = (ring >> 6) + (((start >> 6) + i) & 63)
        if words[_FILLED, word] != _NONE:
            return (word << 6) + np.int64(lowest_bit(words[_FILLED, word]))
    return -1


@njit("int64(uint64[:, ::1], int64[::1])", cache=True, nogil=True)
def _least_bucket(words, state):
    """The bucket with the least slot; one holds a slot."""
    if _has(_FILLED, _BOTTOM, words):
        return _BOTTOM
    bucket = _first_filled(state[COARSE_BASE] & (COARSE - 1), FINE, words)
    if bucket < 0:
        bucket = _first_filled(state[FINE_BASE] & (FINE - 1), 0, words)
    return bucket


@njit("int64(int64, int64[::1])", cache=True, nogil=True)
def _sort_numbers(n, scratch):
    """Sort the first n numbers by counting digits of 11 bits; digits that all share are skipped.

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


@njit("void(int64, int32[:, ::1], uint64[:, ::1], int64[::1])", cache=True, nogil=True)
def _sort_bucket(bucket, nodes, words, scratch):
    """Bring the list of a bucket in order."""
    end = nodes.shape[0] - BUCKETS + bucket
    n = 0
    node = np.int64(nodes[end, NEXT])
    while node != end:
        scratch[n] = (np.int64(nodes[node, SCORE]) << 32) | node
        n += 1
        node = np.int64(nodes[node, NEXT])
    first = 0
    if n < _FEW:
        scratch[:n].sort()
    else:
        first = _sort_numbers(n, scratch)
    before = end
    for i in range(first, first + n):
        node = scratch[i] & 0xFFFFFFFF
        nodes[before, NEXT] = node
        nodes[node, PREVIOUS] = before
        before = node
    nodes[before, NEXT] = end
    nodes[end, PREVIOUS] = before
    _say(_SORTED, bucket, True, words)


@njit("int64(int32[::1], int32[:, ::1], uint64[:, ::1], int64[::1], int64[::1])", cache=True, nogil=True)
def take_least(out_slots, nodes, words, state, scratch):
    """Take the least slots out of the order, as many as ``out_slots`` has places.

    Args:
        out_slots: int32[n]; receives the slots, in order.
        nodes, words, state: the order (see ``clear_order``).
        scratch: int64[scratch_cells(rows)]; any contents.

    Returns:
        How many were taken: n, or all that were in if those are fewer.
    """
    n = min(np.int64(out_slots.shape[0]), state[COUNT])
    taken = 0
    while taken < n:
        bucket = _least_bucket(words, state)
        if not _has(_SORTED, bucket, words):
            _sort_bucket(bucket, nodes, words, scratch)
        end = nodes.shape[0] - BUCKETS + bucket
        node = np.int64(nodes[end, NEXT])
        while taken < n and node != end:
            out_slots[taken] = node
            nodes[node, PREVIOUS] = -1
            taken += 1
            node = np.int64(nodes[node, NEXT])
        nodes[end, NEXT] = node
        nodes[node, PREVIOUS] = end
        if node == end:
            _say(_FILLED, bucket, False, words)
    state[COUNT] -= n
    return n


@njit("void(int32[::1], int32[::1], int32[:, ::1], uint64[:, ::1], int64[::1])", cache=True, nogil=True)
def put_slots(slots, scores, nodes, words, state):
    """Put each slot into the order, or to its new place if it is in.

    Args:
        slots: int32[n]; 0 to rows - 1.
        scores: int32[n].
        nodes, words, state: the order (see ``clear_order``).
    """
    for i in range(slots.shape[0]):
        put_slot(slots[i], scores[i], nodes, words, state)


class VictimOrder:
    """The slots of one table that may be victims; none is in at first.

    Args:
        rows: slots of the table, 0 or more.

    Attributes:
        nodes, words, state, scratch: what the kernels take; for kernels that call them.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.nodes = np.empty((rows + BUCKETS, _COLUMNS), np.int32)
        self.words = np.empty((2, _WORDS), np.uint64)
        self.state = np.empty(3, np.int64)
        self.scratch = np.empty(scratch_cells(rows), np.int64)  # memory is taken as it is written to
        self.clear()

    @property
    def count(self) -> int:
        """How many slots are in."""
        return int(self.state[COUNT])

    def clear(self) -> None:
        """Take every slot out."""
        clear_order(self.nodes, self.words, self.state)

    def put(self, slots: np.ndarray, scores: np.ndarray) -> None:
        """Put the slots of int32[n] in with the scores of int32[n]; one that is in gets its new place."""
        put_slots(slots, scores, self.nodes, self.words, self.state)

    def take(self, n: int) -> np.ndarray:
        """Take the least n slots out, or all that are in: int32, in order of (score, slot)."""
        slots = np.empty(min(n, self.count), np.int32)
        take_least(slots, self.nodes, self.words, self.state, self.scratch)
        return slots
