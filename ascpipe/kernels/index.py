"""Key index: which entry of the table holds a key.

Open addressing with linear probing over two arrays of one power-of-two size: ``index_keys`` int64 and
``index_entries`` int32, where entry -1 marks an empty cell; so every int64 is a valid key.  Removal moves
later keys back instead of leaving tombstones: a search ends at the first empty cell, whatever was removed
before.  ``KeyIndex`` owns a pair of arrays and doubles them when more than 7 of 10 cells would be used; old
and new ones are alive together while the keys move, which takes 51.4 bytes per key at the worst.

The readable version is ``tests/reference/index.py``.
"""
from typing import Tuple

import numpy as np
from numba import njit

from ascpipe.kernels.hashing import hash_key
from ascpipe.kernels.prefetch import prefetch

_ONE = np.uint64(1)
_HASH_SHIFT = np.uint64(33)  # keeps the upper 31 bits, which an int32 can hold
_AHEAD = 32  # keys between the one at hand and the one being brought near; see bench


@njit("uint64(int64, uint64, int64[::1], int32[::1])", cache=True, nogil=True)
def find_cell(key, cell, index_keys, index_entries):
    """The cell that holds ``key``, or the empty one where it belongs.

    Args:
        key: any int64.
        cell: the key's first choice, ``(hash_key(key) >> 33) & (cells - 1)``.
        index_keys, index_entries: int64[cells], int32[cells]; the index, with at least one empty cell.
    """
    mask = np.uint64(index_keys.shape[0] - 1)
    while index_entries[cell] >= 0 and index_keys[cell] != key:
        cell = (cell + _ONE) & mask
    return cell


@njit("int64(int64[::1], int64, int64[::1], int32[::1], int32[::1])", cache=True, nogil=True)
def find_keys(keys, n, index_keys, index_entries, out_entries):
    """Write the entry number of each key, -1 for keys that the index does not hold.

    Args:
        keys: int64[>= n]; any values, duplicates allowed.
        n: how many of them to look up.
        index_keys, index_entries: int64[cells], int32[cells]; the index.
        out_entries: int32[>= n]; receives the entry numbers.

    Returns:
        How many of the n keys are not there.
    """
    mask = np.uint64(index_keys.shape[0] - 1)
    for j in range(n):
        i = np.uint64(j)
        out_entries[i] = np.int32(hash_key(keys[i]) >> _HASH_SHIFT)  # until its own turn in the next loop
    missing = 0
    last = n - 1
    for j in range(n):
        i = np.uint64(j)
        ahead = np.uint64(out_entries[np.uint64(min(j + _AHEAD, last))]) & mask
        prefetch(index_keys, ahead)
        prefetch(index_entries, ahead)
        cell = find_cell(keys[i], np.uint64(out_entries[i]) & mask, index_keys, index_entries)
        entry = index_entries[cell]
        out_entries[i] = entry
        missing += entry < 0
    return missing


@njit("int64(int64, int64, int64[::1], int32[::1])", cache=True, nogil=True)
def insert_key(key, entry, index_keys, index_entries):
    """Make ``key`` lead to ``entry``, whether the index held it or not.

    Args:
        key: any int64.
        entry: its entry number, 0 or more.
        index_keys, index_entries: int64[cells], int32[cells]; the index, with at least two empty cells.

    Returns:
        The entry number that the key had before, -1 if it is new.
    """
    mask = np.uint64(index_keys.shape[0] - 1)
    cell = find_cell(key, (hash_key(key) >> _HASH_SHIFT) & mask, index_keys, index_entries)
    before = index_entries[cell]
    index_keys[cell] = key
    index_entries[cell] = entry
    return before


@njit("int64(int64[::1], int64, int64[::1], int32[::1])", cache=True, nogil=True)
def remove_keys(keys, n, index_keys, index_entries):
    """Take keys out of the index; those that it does not hold are passed over.

    Args:
        keys: int64[>= n]; any values, duplicates allowed.
        n: how many of them to remove.
        index_keys, index_entries: int64[cells], int32[cells]; the index, with at least one empty cell.

    Returns:
        How many keys were removed.
    """
    mask = np.uint64(index_keys.shape[0] - 1)
    removed = 0
    for i in range(n):
        hole = find_cell(keys[i], (hash_key(keys[i]) >> _HASH_SHIFT) & mask, index_keys, index_entries)
        if index_entries[hole] < 0:
            continue
        removed += 1
        cell = (hole + _ONE) & mask
        while index_entries[cell] >= 0:
            home = (hash_key(index_keys[cell]) >> _HASH_SHIFT) & mask
            # distances around the ring; + cells keeps the difference of unsigned numbers above 0
            from_home = (cell + mask + _ONE - home) & mask
            from_hole = (cell + mask + _ONE - hole) & mask
            if from_home >= from_hole:  # a search that starts at home passes the hole
                index_keys[hole] = index_keys[cell]
                index_entries[hole] = index_entries[cell]
                hole = cell
            cell = (cell + _ONE) & mask
        index_entries[hole] = -1
    return removed


@njit("int64(int64[:], boolean[:], int64[::1], int32[::1])", cache=True, nogil=True)
def rebuild_index(entry_keys, live, index_keys, index_entries):
    """Forget everything, then index the live entries.

    Args:
        entry_keys: int64[entries]; the key of each entry, distinct among the live ones; may be strided.
        live: bool[entries]; which entries hold a key; may be strided.
        index_keys, index_entries: int64[cells], int32[cells]; receive the index.

    Returns:
        How many keys it holds: fewer than live entries if a key was live twice (the higher entry is kept).
    """
    mask = np.uint64(index_keys.shape[0] - 1)
    index_entries[:] = -1
    held = 0
    last = entry_keys.shape[0] - 1
    for entry in range(entry_keys.shape[0]):
        ahead = (hash_key(entry_keys[min(entry + _AHEAD, last)]) >> _HASH_SHIFT) & mask
        prefetch(index_keys, ahead)
        prefetch(index_entries, ahead)
        if live[entry]:
            held += insert_key(entry_keys[entry], entry, index_keys, index_entries) < 0
    return held


@njit("int64(int64[::1], int32[::1], int64[::1], int32[::1])", cache=True, nogil=True)
def grow_index(old_keys, old_entries, new_keys, new_entries):
    """Fill a larger index with the keys of a smaller one, which is left as it is.

    Args:
        old_keys, old_entries: int64[cells], int32[cells]; the smaller index.
        new_keys, new_entries: int64[more cells], int32[more cells]; receive the larger one.

    Returns:
        How many keys it holds.
    """
    mask = np.uint64(new_keys.shape[0] - 1)
    new_entries[:] = -1
    held = 0
    for i in range(old_keys.shape[0]):  # cell by cell: new cells are met in nearly ascending order, too
        if old_entries[i] >= 0:
            cell = find_cell(old_keys[i], (hash_key(old_keys[i]) >> _HASH_SHIFT) & mask, new_keys, new_entries)
            new_keys[cell] = old_keys[i]
            new_entries[cell] = old_entries[i]
            held += 1
    return held


def cells_for(count: int) -> int:
    """Cells of an index that holds ``count`` keys: a power of two of which at most 7 of 10 are used."""
    return 1 << max(1, (-(-10 * count // 7) - 1).bit_length())


class KeyIndex:
    """An index that grows; it holds no key at first.

    Args:
        count: keys that it must be able to hold before it grows.

    Attributes:
        keys, entries: int64[cells], int32[cells]; what the kernels take.  ``reserve`` and ``rebuild`` replace them.
    """

    def __init__(self, count: int = 0) -> None:
        self.keys, self.entries = _no_keys(cells_for(count))

    @property
    def limit(self) -> int:
        """How many keys it may hold as it is."""
        return 7 * len(self.keys) // 10

    def reserve(self, count: int) -> None:
        """Be able to hold ``count`` keys; those it holds stay.  To be called before keys are inserted."""
        if count > self.limit:
            keys, entries = _memory(cells_for(count))
            grow_index(self.keys, self.entries, keys, entries)
            self.keys, self.entries = keys, entries

    def rebuild(self, entry_keys: np.ndarray, live: np.ndarray) -> int:
        """Forget everything, then index the live entries.

        Args:
            entry_keys: int64[entries]; may be strided.
            live: bool[entries]; which of them hold a key; may be strided.

        Returns:
            How many keys it holds: fewer than live entries if a key was live twice.
        """
        count = int(np.count_nonzero(live))
        if count > self.limit:
            self.keys, self.entries = _memory(cells_for(count))
        return int(rebuild_index(entry_keys, live, self.keys, self.entries))


def _memory(cells: int) -> Tuple[np.ndarray, np.ndarray]:
    # not zeros(): numpy asks for huge pages for large arrays it does not clear
    return np.empty(cells, np.int64), np.empty(cells, np.int32)


def _no_keys(cells: int) -> Tuple[np.ndarray, np.ndarray]:
    keys, entries = _memory(cells)
    entries.fill(-1)
    return keys, entries
