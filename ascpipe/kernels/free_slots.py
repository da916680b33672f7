"""Free slots of a device table, the lowest one first.

One bit per slot in 64-bit words, 1 = free, and above them words in which a bit says that a word below is
not 0.  All words lie in one array as a tree: word 0 is the root, the children of word w are words
64 w + 1 to 64 w + 64, and the slots' own words come last.  So a slot is found, taken or given back in as
many steps as there are levels (4 for 16 million slots), and what is taken next depends on the set of free
slots alone, not on how it came about.

The readable version is ``tests/reference/free_slots.py``.
"""
from typing import Optional

import numpy as np
from numba import njit

from ascpipe.kernels.bits import lowest_bit

_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW = np.uint64(63)
_NONE = np.uint64(0)


@njit("int64(int64)", cache=True, nogil=True)
def first_leaf(rows):
    """Number of the word that holds slots 0 to 63, for a table of ``rows`` slots."""
    leaves = (rows + 63) // 64
    first = 0
    width = 1
    while width < leaves:
        first += width
        width *= 64
    return first


def free_slot_words(rows: int) -> int:
    """Words of the array ``words`` for a table of ``rows`` slots."""
    return int(first_leaf(rows)) + max(1, (rows + 63) // 64)


@njit("void(uint64, uint64[::1])", cache=True, nogil=True)
def _raise_above(word, words):
    """Say in the words above that ``word``, which was 0, is so no more."""
    while word > _NONE:
        bit = _ONE << ((word - _ONE) & _LOW)
        word = (word - _ONE) >> _SIX
        known = words[word]
        words[word] = known | bit
        if known != _NONE:
            break


@njit("void(uint64, uint64[::1])", cache=True, nogil=True)
def _clear_above(word, words):
    """Say in the words above that ``word`` has become 0."""
    while word > _NONE:
        bit = _ONE << ((word - _ONE) & _LOW)
        word = (word - _ONE) >> _SIX
        words[word] &= ~bit
        if words[word] != _NONE:
            break


@njit("int64(int32[::1], uint64[::1])", cache=True, nogil=True)
def rebuild_free_slots(slot_entries, words):
    """Make the tree anew: the free slots are those without an entry.

    Args:
        slot_entries: int32[rows]; entry of each slot, -1 = none.
        words: uint64[free_slot_words(rows)]; receives the tree.

    Returns:
        How many slots are free.
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


@njit("int64(int64, uint64[::1], int32[::1])", cache=True, nogil=True)
def take_lowest_slots(rows, words, out_slots):
    """Take the lowest free slots, as many as ``out_slots`` has places.

    Args:
        rows: slots of the table.
        words: uint64[free_slot_words(rows)]; the tree.
        out_slots: int32[n]; receives the slots, ascending.

    Returns:
        How many were taken: n, or all that were free if those are fewer.
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


@njit("int64(int32[::1], int64, uint64[::1])", cache=True, nogil=True)
def release_slots(slots, rows, words):
    """Give these slots back.

    Args:
        slots: int32[n].
        rows: slots of the table.
        words: uint64[free_slot_words(rows)]; the tree.

    Returns:
        n; or the index of the first slot that is free already or not of this table, those before it are
        given back.
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


class FreeSlots:
    """The free slots of one table, with their number; all are free at first.

    Args:
        rows: slots of the table, 0 or more.
        count: int64[1], where the number is kept; memory of its own by default.

    Attributes:
        words: uint64[free_slot_words(rows)]; the tree.
    """

    def __init__(self, rows: int, count: Optional[np.ndarray] = None) -> None:
        self.rows = rows
        self.words = np.zeros(free_slot_words(rows), np.uint64)
        self._count = np.zeros(1, np.int64) if count is None else count
        self.rebuild(np.full(rows, -1, np.int32))

    @property
    def count(self) -> int:
        """How many slots are free."""
        return int(self._count[0])

    def rebuild(self, slot_entries: np.ndarray) -> None:
        """Start again from int32[rows]: a slot is free where the entry is -1."""
        self._count[0] = rebuild_free_slots(slot_entries, self.words)

    def take_lowest(self, out_slots: np.ndarray) -> None:
        """Fill int32[n] with the n lowest free slots and take them.

        Raises:
            ValueError: fewer than n are free; nothing is taken.
        """
        if len(out_slots) > self.count:
            raise ValueError("{} slots wanted, {} are free".format(len(out_slots), self.count))
        self._count[0] -= take_lowest_slots(self.rows, self.words, out_slots)

    def release(self, slots: np.ndarray) -> None:
        """Give back the slots of int32[n].

        Raises:
            ValueError: a slot is free already; those before it are given back.
        """
        done = int(release_slots(slots, self.rows, self.words))
        self._count[0] += done
        if done < len(slots):
            raise ValueError("slot {} at index {} is free already or not one of {} slots".format(
                slots[done], done, self.rows))
