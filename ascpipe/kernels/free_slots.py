"""Kernels that take and release the slots of a device table. A tree of bit sets finds the lowest free slots.

A node of the tree is a uint64. A leaf has one bit per slot, which is 1 if the slot is free. A bit of an inner node is 1
if the node below it is not 0. All nodes are in one array, ``words``. Node 0 is the root, the children of node w are
nodes 64 w + 1 to 64 w + 64, and the leaves are last. A slot is found, taken or released in one step per level (4 levels
for 16 million slots). The next slot that is taken depends only on the set of free slots.

The plain-Python version is ``tests/reference/free_slots.py``.
"""
import numpy as np

from ascpipe.kernels.bits import lowest_bit
from ascpipe.kernels.door import entry, inner

_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW = np.uint64(63)
_NONE = np.uint64(0)


@entry("int64(int64)")
def first_leaf(rows):
    """Return the node number of the first leaf (slots 0 to 63) in the tree of a table with ``rows`` slots."""
    leaves = (rows + 63) // 64
    first = 0
    width = 1
    while width < leaves:
        first += width
        width *= 64
    return first


def free_slot_words(rows: int) -> int:
    """Return the number of tree nodes for a table with ``rows`` slots."""
    return int(first_leaf(rows)) + max(1, (rows + 63) // 64)


@inner("void(uint64, uint64[::1])")
def _raise_above(word, words):
    """Update the nodes above node ``word`` after ``words[word]`` has changed from 0 to another value."""
    while word > _NONE:
        bit = _ONE << ((word - _ONE) & _LOW)
        word = (word - _ONE) >> _SIX
        known = words[word]
        words[word] = known | bit
        if known != _NONE:
            break


@inner("void(uint64, uint64[::1])")
def _clear_above(word, words):
    """Update the nodes above node ``word`` after ``words[word]`` has become 0."""
    while word > _NONE:
        bit = _ONE << ((word - _ONE) & _LOW)
        word = (word - _ONE) >> _SIX
        words[word] &= ~bit
        if words[word] != _NONE:
            break


@entry("int64(int32[::1], uint64[::1])")
def rebuild_free_slots(slot_entries, words):
    """Rebuild the tree of free slots. Slots without an entry are free.

    Args:
        slot_entries: int32[rows]; entry of each slot, -1 = none.
        words: uint64[free_slot_words(rows)]; receives the tree.

    Returns:
        Number of free slots.
    """
    rows = slot_entries.shape[0]
    first = first_leaf(rows)
    words[:] = _NONE
    free = 0
    for slot in range(rows):
        if slot_entries[slot] < 0:
            words[first + (slot >> 6)] |= _ONE << (np.uint64(slot) & _LOW)
            free += 1
    for word in range(words.shape[0] - 1, 0, -1):
        if words[word] != _NONE:
            words[(word - 1) >> 6] |= _ONE << (np.uint64(word - 1) & _LOW)
    return free


@inner("int64(int64, uint64[::1], int32[::1])")
def take_lowest_slots(rows, words, out_slots):
    """Take the lowest free slots.

    Args:
        rows: number of slots of the table.
        words: uint64[free_slot_words(rows)]; the tree.
        out_slots: int32[n]; receives the slots, ascending.

    Returns:
        Number of slots taken: n, or all free slots if there are fewer.
    """
    n = out_slots.shape[0]
    first = np.uint64(first_leaf(rows))
    taken = 0
    while taken < n and words[0] != _NONE:
        word = _NONE
        while word < first:
            word = (word << _SIX) + _ONE + lowest_bit(words[word])
        left = words[word]
        base = (word - first) << _SIX
        while taken < n and left != _NONE:
            out_slots[taken] = np.int32(base + lowest_bit(left))
            left &= left - _ONE
            taken += 1
        words[word] = left
        if left == _NONE:
            _clear_above(word, words)
    return taken


@inner("int64(int32[::1], int64, uint64[::1])")
def release_slots(slots, rows, words):
    """Mark slots as free.

    Args:
        slots: int32[n].
        rows: number of slots of the table.
        words: uint64[free_slot_words(rows)]; the tree.

    Returns:
        n, or the index of the first slot that is already free or not in this table. The slots before this index
        are released.
    """
    first = first_leaf(rows)
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        if slot < 0 or slot >= rows:
            return i
        word = np.uint64(first + (slot >> 6))
        bit = _ONE << (np.uint64(slot) & _LOW)
        known = words[word]
        if known & bit != _NONE:
            return i
        words[word] = known | bit
        if known == _NONE:
            _raise_above(word, words)
    return slots.shape[0]
