"""Where a key belongs: its hash, its cell, and the rank that owns it.

The readable version is ``tests/reference/hashing.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.bits import multiply_wrapping

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))

# Below 2^31, so that the sum of two products of 32 bits by 31 stays below 2^64.
_LOWER, _UPPER = np.uint64(0x7FEB352D), np.uint64(0x68E31DA5)
_LAST = np.uint64(0x85EBCA6B)
_FOLD = np.uint64(28)
_HALF = np.uint64(32)
_LOWER_HALF = np.uint64(0xFFFFFFFF)


@njit("uint64(int64)", cache=True, nogil=True)
def hash_key(key: int) -> np.uint64:
    """Spread one key over 64 bits; the same on every rank and in every run.

    The finaliser of splitmix64: a bijection in which each bit of the key moves every bit of the result
    with probability near one half, so any of its bits may choose a cell.
    """
    mixed = np.uint64(key)
    mixed = multiply_wrapping(mixed ^ (mixed >> _SHIFTS[0]), _FIRST)
    mixed = multiply_wrapping(mixed ^ (mixed >> _SHIFTS[1]), _SECOND)
    return mixed ^ (mixed >> _SHIFTS[2])


@njit("void(int64[::1], int64, int32[::1])", cache=True, nogil=True)
def home_cells(keys, bits, out_cells):
    """Choose one of 2 ** ``bits`` cells for each key, for a table that lives as long as one call.

    For a third of the instructions of ``hash_key``: products of 32 bits alone, of which the processor makes several
    at once. Keys at equal distances spread as random ones do, whatever the distance; two keys in some 2^32 meet in
    the same cell of every table.

    Args:
        keys: int64[n]; any values.
        bits: 0 to 31.
        out_cells: int32[>= n]; receives the cells, 0 to 2 ** ``bits`` - 1.
    """
    shift = _HALF - np.uint64(bits)
    for j in range(keys.shape[0]):
        i = np.uint64(j)
        key = np.uint64(keys[i])
        mixed = (key & _LOWER_HALF) * _LOWER + (key >> _HALF) * _UPPER
        mixed = ((mixed ^ (mixed >> _FOLD)) & _LOWER_HALF) * _LAST
        out_cells[i] = np.int32((mixed & _LOWER_HALF) >> shift)


@njit("int64(int64, int64)", cache=True, nogil=True)
def owner_rank(key: int, ranks: int) -> int:
    """Rank that stores ``key``: ``|key| % ranks``, for any int64 key; ``ranks`` is at least 1."""
    one = np.int64(1)
    if key < 0:
        magnitude = np.uint64(-(key + one)) + np.uint64(1)  # |key|; -key has no int64 for the smallest key
    else:
        magnitude = np.uint64(key)
    return np.int64(magnitude % np.uint64(ranks))
