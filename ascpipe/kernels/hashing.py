"""Kernels that hash keys and assign keys to cells.

Hashes depend on the *spread*, three random numbers that a daemon generates at its start. With a fixed hash function, an
attacker could choose ids that all collide in one cell, and the time of each lookup would grow with their number. The
spread does not affect results.

The plain-Python version is ``tests/reference/hashing.py``.
"""
from typing import Tuple

import numpy as np

from ascpipe.kernels.bits import add_wrapping, multiply_wrapping
from ascpipe.kernels.door import inner

_ALL = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15  # constants of splitmix64: the step, and two constants of the finalizer
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB

HASH_BITS = np.uint64(32)  #: number of bits of a hash

_HALF = np.uint64(32)
_LOWER_HALF = np.uint64(0xFFFFFFFF)
_FOLD = np.uint64(15)
_LAST = np.uint64(0x9E3779B1)

Spread = Tuple[np.uint64, np.uint64, np.uint64]


def spread_of(seed: int) -> Spread:
    """Return the spread of a seed: three 64-bit numbers that splitmix64 computes. The seed is 0 to 2^64 - 1."""
    first, second, third = (np.uint64(_scrambled(seed + step * _STEP & _ALL)) for step in (1, 2, 3))
    return first, second, third


def _scrambled(word: int) -> int:
    word = (word ^ word >> 30) * _FIRST & _ALL
    word = (word ^ word >> 27) * _SECOND & _ALL
    return word ^ word >> 31


@inner("uint64(int64, Spread)")
def hash_key(key: int, spread: Spread) -> np.uint64:
    """Return a 32-bit hash of a key. Callers use the upper bits.

    For any two different keys, the upper k bits of the hashes are equal for at most one spread in 2^k. ``summed`` is a
    form of Thorup's pair multiply-shift (High Speed Hashing for Integers and Strings, 2015); its upper half is used. If
    a seed were only xored into the key before constant multipliers, there would be no such bound, and an attacker could
    choose ids that collide for all seeds. The last line is a bijection, so the bound still holds. Without the last
    line, keys at equal distances would have hashes at equal distances.
    """
    word = np.uint64(key)
    summed = add_wrapping(multiply_wrapping(add_wrapping(word, spread[0]), add_wrapping(word >> _HALF, spread[1])),
                          spread[2])
    mixed = summed >> _HALF
    return ((mixed ^ (mixed >> _FOLD)) * _LAST) & _LOWER_HALF  # the product of two numbers below 2^32 does not overflow


@inner("void(int64[::1], int64, Spread, int32[::1])")
def home_cells(keys, bits, spread, out_cells):
    """Choose one of 2 ** ``bits`` cells for each key.

    Args:
        keys: int64[n]; any values.
        bits: 0 to 31.
        spread: spread of the daemon.
        out_cells: int32[>= n]; receives the cells, which are 0 to 2 ** ``bits`` - 1.
    """
    shift = HASH_BITS - np.uint64(bits)
    for j in range(keys.shape[0]):
        i = np.uint64(j)
        out_cells[i] = np.int32(hash_key(keys[i], spread) >> shift)
