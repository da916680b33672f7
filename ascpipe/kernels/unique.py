"""Distinct keys of a batch, how often each occurs, and the restore index that undoes it.

The readable version is ``tests/reference/unique.py``.

How it is made fast: cells of four bytes hold a place in ``out_unique`` instead of the key; hashes are made
in a pass of their own and tell which cell to bring near for a later key; and a new key needs no branch (see
the loop).  Cells for twice the batch, emptied at each call, were measured to be faster than fewer cells that
grow with the distinct keys: emptying is cheap, and searches that go past the first cell are not.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.hashing import hash_key
from ascpipe.kernels.prefetch import prefetch

_ONE = np.uint64(1)
_HASH_SHIFT = np.uint64(33)  # keeps the upper 31 bits, which an int32 can hold
_AHEAD = 64  # keys between the one at hand and the one whose cell is being brought near

# columns of ``parts``
ID_COUNT, IDS, UNIQUE, RESTORE, OCCURRENCES, UNIQUE_COUNT = range(6)
PART_COLUMNS = 6


def scratch_cells(n: int) -> int:
    """Cells that ``unique_keys`` needs for n keys: a power of two, at least 2 n."""
    return 1 << max(0, 2 * n - 1).bit_length()


@njit("int64(int64[::1], int64[::1], int32[::1], int32[::1], int32[::1])", cache=True, nogil=True)
def unique_keys(keys, out_unique, out_restore, out_occurrences, cells):
    """Write the distinct keys in order of first appearance.

    Args:
        keys: int64[n]; any values, duplicates allowed.
        out_unique: int64[>= n]; its first places receive the distinct keys, the others are undefined.
        out_restore: int32[>= n]; receives the restore index: ``out_unique[out_restore[i]] == keys[i]``.
        out_occurrences: int32[>= n]; receives how often each distinct key occurs.
        cells: int32[>= scratch_cells(n)]; scratch, content on entry ignored.

    Returns:
        How many distinct keys there are, 0 to n.
    """
    n = keys.shape[0]
    for j in range(n):
        i = np.uint64(j)
        out_restore[i] = np.int32(hash_key(keys[i]) >> _HASH_SHIFT)  # until its own turn in the next loop
    in_use = 1  # a power of two, at least 2 n: as scratch_cells
    while in_use < 2 * n:
        in_use *= 2
    cells[:in_use] = -1
    mask = np.uint64(in_use - 1)
    last = n - 1
    n_unique = np.uint64(0)
    for j in range(n):
        i = np.uint64(j)
        prefetch(cells, np.uint64(out_restore[np.uint64(min(j + _AHEAD, last))]) & mask)
        key = keys[i]
        cell = np.uint64(out_restore[i]) & mask
        # The key is put at the next free place first.  An empty cell (-1, the largest number when read
        # unsigned) then leads there, and is a match as a known key's cell is:
        #     if cells[cell] < 0: cells[cell] = n_unique; out_unique[n_unique] = key; n_unique += 1
        out_unique[n_unique] = key
        out_occurrences[n_unique] = 0
        place = min(np.uint64(np.uint32(cells[cell])), n_unique)
        while out_unique[place] != key:
            cell = (cell + _ONE) & mask
            place = min(np.uint64(np.uint32(cells[cell])), n_unique)
        cells[cell] = np.int32(place)
        out_restore[i] = np.int32(place)
        out_occurrences[place] += np.int32(1)
        n_unique += np.uint64(place == n_unique)
    return np.int64(n_unique)


@njit("int64(int64[::1], int32[::1], int64[:, ::1], int32[::1])", cache=True, nogil=True)
def dedup_parts(i64, i32, parts, cells):
    """Dedup all parts of a frame.

    Args:
        i64: int64[...]; the frame's memory.
        i32: int32[...]; the same memory.
        parts: int64[parts, PART_COLUMNS]; per part ID_COUNT n; IDS and UNIQUE, places of int64[n] in
            ``i64``; RESTORE and OCCURRENCES, places of int32[n] in ``i32``; UNIQUE_COUNT is written. The
            four arrays of a part, and of all parts, do not overlap.
        cells: int32[>= scratch_cells(largest n)]; scratch, content on entry ignored.

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
        )
        parts[part, UNIQUE_COUNT] = found
        total += found
    return total
