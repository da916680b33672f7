"""Distinct keys of a batch, how often each occurs, and the restore index that undoes it.

The readable version is ``tests/reference/unique.py``.

How it is made fast: cells of four bytes hold a place in ``out_unique`` instead of the key; home cells are chosen
in a pass of their own and tell which cell to bring near for a later key; and no branch depends on whether a
key is new, unless nearly all of the block before were, or hardly any: then the processor foresees the branch.
Cells for twice the batch, emptied at each call, were measured to be faster than fewer cells that grow with the
distinct keys: emptying is cheap, and searches that go past the first cell are not.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.hashing import home_cells
from ascpipe.kernels.prefetch import prefetch

_ONE = np.uint64(1)
_AHEAD = 24  # keys between the one at hand and the one whose cell is being brought near
_BLOCK = 1024  # keys between two choices of how to find their places
_FEW_NEW = _BLOCK // 8  # of a block; with fewer than these the next one is taken with a branch,
_MANY_NEW = _BLOCK * 7 // 8  # and with more
_SIGN = np.int64(63)

# columns of ``parts``
ID_COUNT, IDS, UNIQUE, RESTORE, OCCURRENCES, UNIQUE_COUNT = range(6)
PART_COLUMNS = 6


def scratch_cells(n: int) -> int:
    """Cells that ``unique_keys`` needs for n keys: a power of two, at least 2 n."""
    return 1 << max(0, 2 * n - 1).bit_length()


@njit("int64(int64[::1], uint64, uint64, uint64, int64, int64[::1], int32[::1], int32[::1], uint64)",
      cache=True, nogil=True)
def _find_places(keys, begin, end, ahead, n_unique, out_unique, out_restore, cells, mask):
    """Replace the home cells of a block in ``out_restore`` by places; returns how many there are afterwards."""
    i = begin
    while i < end:
        prefetch(cells, np.uint64(out_restore[i + ahead]))
        key = keys[i]
        cell = np.uint64(out_restore[i])
        held = np.int64(cells[cell])
        new = held >> _SIGN  # all bits are set if the cell is empty, else none
        # For an empty cell the first place is read, in vain: that of the new key would make the read wait for a write.
        while (out_unique[np.uint64(held & ~new)] ^ key) & ~new:
            cell = (cell + _ONE) & mask
            held = np.int64(cells[cell])
            new = held >> _SIGN
        place = n_unique if held < 0 else held  # a selection, no branch
        cells[cell] = np.int32(place)
        out_unique[np.uint64(n_unique)] = key  # if it is not new, the next one that is overwrites it
        out_restore[i] = np.int32(place)
        n_unique -= new
        i += _ONE
    return n_unique


@njit("int64(int64[::1], uint64, uint64, uint64, int64, int64[::1], int32[::1], int32[::1], int32[::1], uint64)",
      cache=True, nogil=True)
def _find_and_count(keys, begin, end, ahead, n_unique, out_unique, out_restore, out_occurrences, cells, mask):
    """The same, and count the block: faster for keys that are nearly all new, or nearly all known."""
    i = begin
    while i < end:
        prefetch(cells, np.uint64(out_restore[i + ahead]))
        key = keys[i]
        cell = np.uint64(out_restore[i])
        place = np.int64(cells[cell])
        while place >= 0 and out_unique[np.uint64(place)] != key:
            cell = (cell + _ONE) & mask
            place = np.int64(cells[cell])
        if place < 0:
            place = n_unique
            cells[cell] = np.int32(place)
            out_unique[np.uint64(place)] = key
            out_occurrences[np.uint64(place)] = 1
            n_unique += 1
        else:
            out_occurrences[np.uint64(place)] += np.int32(1)
        out_restore[i] = np.int32(place)
        i += _ONE
    return n_unique


@njit("void(int64, int64, int64, int64, int32[::1], int32[::1])", cache=True, nogil=True)
def _count(begin, end, known, n_unique, restore, out_occurrences):
    """Count keys whose places are known; those from ``known`` on were found among them."""
    out_occurrences[known:n_unique] = 0
    for j in range(begin, end):
        out_occurrences[np.uint64(restore[np.uint64(j)])] += np.int32(1)


@njit("int64(int64[::1], int64[::1], int32[::1], int32[::1], int32[::1], UniTuple(uint64, 3))", cache=True, nogil=True)
def unique_keys(keys, out_unique, out_restore, out_occurrences, cells, spread):
    """Write the distinct keys in order of first appearance.

    Args:
        keys: int64[n]; any values, duplicates allowed.
        out_unique: int64[>= n]; its first places receive the distinct keys, the others are undefined.
        out_restore: int32[>= n]; receives the restore index: ``out_unique[out_restore[i]] == keys[i]``.
        out_occurrences: int32[>= n]; receives how often each distinct key occurs.
        cells: int32[>= scratch_cells(n)]; scratch, content on entry ignored.
        spread: three numbers (see ``hashing``); no result depends on them.

    Returns:
        How many distinct keys there are, 0 to n.
    """
    n = keys.shape[0]
    in_use, bits = 1, 0  # a power of two, at least 2 n: as scratch_cells
    while in_use < 2 * n:
        in_use *= 2
        bits += 1
    home_cells(keys, min(bits, 31), spread, out_restore)  # where they stay until their own turn
    cells[:in_use] = -1
    mask = np.uint64(in_use - 1)
    n_unique = 0
    counted, counted_unique = 0, 0  # keys, and distinct ones among them, that are in out_occurrences
    new = _BLOCK // 2  # of the block before; not known yet
    for begin in range(0, n, _BLOCK):
        end = min(begin + _BLOCK, n)
        block = np.uint64(begin), np.uint64(end), np.uint64(min(_AHEAD, n - end))
        before = n_unique
        if _FEW_NEW <= new <= _MANY_NEW:  # counted together when all are found, and the cells are not needed any more
            n_unique = _find_places(keys, *block, n_unique, out_unique, out_restore, cells, mask)
        else:
            _count(counted, begin, counted_unique, n_unique, out_restore, out_occurrences)
            n_unique = _find_and_count(keys, *block, n_unique, out_unique, out_restore, out_occurrences, cells, mask)
            counted, counted_unique = end, n_unique
        new = n_unique - before
    _count(counted, n, counted_unique, n_unique, out_restore, out_occurrences)
    return n_unique


@njit("int64(int64[::1], int32[::1], int64[:, ::1], int32[::1], UniTuple(uint64, 3))", cache=True, nogil=True)
def dedup_parts(i64, i32, parts, cells, spread):
    """Dedup all parts of a frame.

    Args:
        i64: int64[...]; the frame's memory.
        i32: int32[...]; the same memory.
        parts: int64[parts, PART_COLUMNS]; per part ID_COUNT n; IDS and UNIQUE, places of int64[n] in
            ``i64``; RESTORE and OCCURRENCES, places of int32[n] in ``i32``; UNIQUE_COUNT is written. The
            four arrays of a part, and of all parts, do not overlap.
        cells: int32[>= scratch_cells(largest n)]; scratch, content on entry ignored.
        spread: as ``unique_keys`` takes it.

    Returns:
        How many distinct keys the parts have in all.
    """
    total = 0
    for part in range(parts.shape[0]):
        n = parts[part, ID_COUNT]
        ids = parts[part, IDS]
        unique = parts[part, UNIQUE]
        restore = parts[part, RESTORE]
        occurrences = parts[part, OCCURRENCES]
        found = unique_keys(
            i64[ids : ids + n],
            i64[unique : unique + n],
            i32[restore : restore + n],
            i32[occurrences : occurrences + n],
            cells,
            spread,
        )
        parts[part, UNIQUE_COUNT] = found
        total += found
    return total
