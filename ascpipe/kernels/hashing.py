"""Where a key belongs: its hash, and the rank that owns it.

The readable version is ``tests/reference/hashing.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.bits import multiply_wrapping

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


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


@njit("int64(int64, int64)", cache=True, nogil=True)
def owner_rank(key: int, ranks: int) -> int:
    """Rank that stores ``key``: ``|key| % ranks``, for any int64 key; ``ranks`` is at least 1."""
    one = np.int64(1)
    if key < 0:
        magnitude = np.uint64(-(key + one)) + np.uint64(1)  # |key|; -key has no int64 for the smallest key
    else:
        magnitude = np.uint64(key)
    return np.int64(magnitude % np.uint64(ranks))
