"""Deduplication of a batch: distinct keys, occurrences, and the restore index.

These design choices make it fast:

* Cells of four bytes hold an index into ``unique`` instead of the key.
* Home cells are computed in a separate pass, so that the cells of later keys can be prefetched.
* Usually no branch depends on whether a key is new. A branch is used only if nearly all or nearly no keys of the
  previous block were new, because the processor then predicts it.
* There are two cells per key of the batch, which are emptied at each call. A smaller table that grows with the distinct
  keys was slower, because searches past the first cell cost more than emptying.

The plain-Python version is ``tests/reference/unique.py``.
"""
import numpy as np

from ascpipe.kernels.door import inner
from ascpipe.kernels.hashing import home_cells
from ascpipe.kernels.prefetch import prefetch

_ONE = np.uint64(1)
_AHEAD = 24  # prefetch distance in keys
_BLOCK = 1024  # number of keys between two choices of the method
_FEW_NEW = _BLOCK // 8  # with fewer new keys in a block, the next block uses a branch
_MANY_NEW = _BLOCK * 7 // 8  # with more new keys, the next block also uses a branch
_SIGN = np.int64(63)
_MOST = 2**31 - 1


def scratch_cells(n: int) -> int:
    """Return the number of cells for n keys: a power of two, and at least 2 n."""
    return 1 << max(0, 2 * n - 1).bit_length()


@inner("int64(Dedup, UniTuple(uint64, 3), int64, uint64)")
def _find_indexes(dedup, block, n_unique, mask):
    """For a block of keys, replace the home cells in ``restore`` by indexes into ``unique``. Return the new number of
    distinct keys.
    """
    keys, unique, restore, _, cells = dedup
    i, end, ahead = block
    while i < end:
        prefetch(cells, np.uint64(restore[i + ahead]))
        key = keys[i]
        cell = np.uint64(restore[i])
        found = np.int64(cells[cell])
        new = found >> _SIGN  # all bits are set if the cell is empty; otherwise, no bit is set
        # If the cell is empty, unique[0] is read and ignored. Reading the item of the new key would wait for a write.
        while (unique[np.uint64(found & ~new)] ^ key) & ~new:
            cell = (cell + _ONE) & mask
            found = np.int64(cells[cell])
            new = found >> _SIGN
        index = n_unique if found < 0 else found  # compiled to a selection without a branch
        cells[cell] = np.int32(index)
        unique[np.uint64(n_unique)] = key  # if the key is not new, the next new key overwrites it
        restore[i] = np.int32(index)
        n_unique -= new
        i += _ONE
    return n_unique


@inner("int64(Dedup, UniTuple(uint64, 3), int64, uint64)")
def _find_and_count(dedup, block, n_unique, mask):
    """Find indexes as ``_find_indexes`` does, and also count the occurrences of each key. Call the function only if
    almost all or almost no keys are new.
    """
    keys, unique, restore, occurrences, cells = dedup
    i, end, ahead = block
    while i < end:
        prefetch(cells, np.uint64(restore[i + ahead]))
        key = keys[i]
        cell = np.uint64(restore[i])
        index = np.int64(cells[cell])
        while index >= 0 and unique[np.uint64(index)] != key:
            cell = (cell + _ONE) & mask
            index = np.int64(cells[cell])
        if index < 0:
            index = n_unique
            cells[cell] = np.int32(index)
            unique[np.uint64(index)] = key
            occurrences[np.uint64(index)] = 1
            n_unique += 1
        else:
            occurrences[np.uint64(index)] += np.int32(1)
        restore[i] = np.int32(index)
        i += _ONE
    return n_unique


@inner("void(int64, int64, int64, int64, int32[::1], int32[::1])")
def _count(begin, end, known, n_unique, restore, out_occurrences):
    """Count the keys of a block of ``restore``. First, set the counts of the keys from ``known`` on to 0."""
    out_occurrences[known:n_unique] = 0
    for j in range(begin, end):
        out_occurrences[np.uint64(restore[np.uint64(j)])] += np.int32(1)


@inner("void(int32[::1], int32[::1], int32[::1])")
def weigh_keys(weights, restore, out_occurrences):
    """Set the occurrences of each distinct key to the sum of the weights of its ids.

    Args:
        weights: int32[n]; weight of each id. A negative weight counts as 0.
        restore: int32[n]; index of the id's distinct key.
        out_occurrences: int32[distinct keys]; receives the sums, at most 2^31 - 1.
    """
    out_occurrences[:] = 0
    for j in range(weights.shape[0]):
        key = np.uint64(restore[j])
        total = np.int64(out_occurrences[key]) + max(np.int64(weights[j]), 0)
        out_occurrences[key] = np.int32(min(total, _MOST))


@inner("int64(Dedup, Spread)")
def unique_keys(dedup, spread):
    """Deduplicate a batch. The distinct keys are in order of first appearance.

    Args:
        dedup: batch with any keys. It receives distinct keys, restore index and occurrences.
        spread: seed of the hash (see ``hashing``), which does not affect results.

    Returns:
        Number of distinct keys, 0 to n.
    """
    keys, _, out_restore, out_occurrences, cells = dedup
    n = keys.shape[0]
    in_use = 1  # a power of two, at least 2 n; see ``scratch_cells``
    bits = 0
    while in_use < 2 * n:
        in_use *= 2
        bits += 1
    home_cells(keys, min(bits, 31), spread, out_restore)  # a home cell stays in ``restore`` until its key is processed
    cells[:in_use] = -1
    mask = np.uint64(in_use - 1)
    n_unique = 0
    counted = 0  # number of keys that are counted
    counted_unique = 0  # number of distinct keys among the counted keys
    new = _BLOCK // 2  # number of new keys of the previous block; unknown for the first block
    for begin in range(0, n, _BLOCK):
        end = min(begin + _BLOCK, n)
        block = np.uint64(begin), np.uint64(end), np.uint64(min(_AHEAD, n - end))
        before = n_unique
        if _FEW_NEW <= new <= _MANY_NEW:  # the keys are counted later, for several blocks together
            n_unique = _find_indexes(dedup, block, n_unique, mask)
        else:
            _count(counted, begin, counted_unique, n_unique, out_restore, out_occurrences)
            n_unique = _find_and_count(dedup, block, n_unique, mask)
            counted = end
            counted_unique = n_unique
        new = n_unique - before
    _count(counted, n, counted_unique, n_unique, out_restore, out_occurrences)
    return n_unique
