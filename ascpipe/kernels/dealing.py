"""Kernel that sorts the distinct keys of a batch by owner. The owner of a key is the rank that stores the key.

The plain-Python version is ``tests/reference/dealing.py``.
"""
import numpy as np

from ascpipe.kernels.bits import add_wrapping
from ascpipe.kernels.compiler import register_jitable
from ascpipe.kernels.door import inner
from ascpipe.kernels.unique import scratch_cells

_ONE = np.uint64(1)


@register_jitable
def least_cells(n, ranks):
    """Return the minimum length of ``cells`` to deduplicate n keys, and to sort them by owner among ``ranks`` ranks."""
    return 2 * n if ranks <= 1 else 3 * n + ranks


def cells_to_deal(n: int, ranks: int) -> int:
    """Return the length of ``cells`` to allocate for a batch of n keys: a power of two, and at least ``least_cells``.
    """
    return scratch_cells((int(least_cells(n, ranks)) + 1) // 2)


@inner("int64(int64, int64)")
def owner_of(key, ranks):
    """Return the rank that stores a key: |key| % ``ranks``. For the key -2^63, the absolute value is 2^63."""
    word = np.uint64(key)
    if key < 0:
        word = add_wrapping(~word, _ONE)
    return np.int64(word % np.uint64(ranks))


@inner("void(Dedup, int64, int64)")
def deal_keys(dedup, n_unique, ranks):
    """Sort distinct keys by owner. Keys of the same owner stay in their previous order.

    Args:
        dedup: deduplicated batch, with ``least_cells`` cells of any content. The distinct keys, restore index
            and occurrences are changed.
        n_unique: number of distinct keys.
        ranks: 2 to 4095.
    """
    unique = dedup.unique[:n_unique]
    restore = dedup.restore
    occurrences = dedup.occurrences[:n_unique]
    keys = dedup.cells[:2 * n_unique].view(np.int64)  # the distinct keys in the new order
    indexes = dedup.cells[2 * n_unique:3 * n_unique]  # for each distinct key: its owner, later its new index
    next_indexes = dedup.cells[3 * n_unique:3 * n_unique + ranks]  # for each owner: index of its next key
    next_indexes[:] = 0
    for j in range(n_unique):
        owner = owner_of(unique[j], ranks)
        indexes[j] = owner
        next_indexes[np.uint64(owner)] += np.int32(1)
    first = np.int32(0)
    for owner in range(ranks):
        count = next_indexes[owner]
        next_indexes[owner] = first
        first += count
    for j in range(n_unique):
        owner = np.uint64(indexes[j])
        index = next_indexes[owner]
        next_indexes[owner] = index + np.int32(1)
        keys[np.uint64(index)] = unique[j]
        indexes[j] = index
    unique[:] = keys
    counts = dedup.cells[:n_unique]  # this overwrites the keys, which were copied
    for j in range(n_unique):
        counts[np.uint64(indexes[j])] = occurrences[j]
    occurrences[:] = counts
    for j in range(dedup.keys.shape[0]):
        i = np.uint64(j)
        restore[i] = indexes[np.uint64(restore[i])]
