"""Operations on arrays of keys: search, duplicates, owner rank. The functions are pure."""
from typing import Iterator, List, Optional, Tuple

import numpy as np


def places(keys: np.ndarray, sought: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Look up keys in a sorted set.

    Args:
        keys: int64[n], sorted and unique.
        sought: int64[m].

    Returns:
        int64[m], the position of each sought key, and bool[m], whether the key was found. The position of a key
        that was not found is meaningless.
    """
    if not len(keys):
        return np.zeros(len(sought), np.int64), np.zeros(len(sought), bool)
    if len(keys) < _CACHED:
        found = np.searchsorted(keys, sought)
    else:  # searching in the order of the keys misses the CPU cache less often
        order = np.argsort(sought)
        found = np.empty(len(sought), np.int64)
        found[order] = np.searchsorted(keys, sought[order])
    found.clip(max=len(keys) - 1, out=found)
    return found, keys[found] == sought


_CACHED = 1 << 17  #: number of keys that stay in the CPU cache
_FEW = 1 << 12  #: ``repeated`` sorts arrays of at most this size instead of hashing the keys
_MANY = (1 << 31) - 1  #: maximum of an int32
_CHUNK = 1 << 16
_FACTORS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xC2B2AE3D27D4EB4F)  # odd multipliers


def repeated(keys: np.ndarray) -> Optional[int]:
    """Return a key that occurs more than once, or None if all keys are unique.

    The result is exact. If few hashes collide, the search is several times faster than sorting.

    Each round writes the index of each key into a hash table, at the slot of the key's hash. A key is finished if its
    slot still contains its index. If the slot contains the index of an equal key, the key is a duplicate. All other
    keys go to the next round. Equal keys have the same slot, so one of them is found, or all go to the next round.

    Args:
        keys: int64[n], contiguous; may be reordered.
    """
    if (keys[1:] > keys[:-1]).all():
        return None
    for factor in _FACTORS:
        if not _FEW < len(keys) <= _MANY:
            break
        double, keys = _contended(keys, factor)
        if double is not None:
            return double
    keys.sort()
    same = np.flatnonzero(keys[1:] == keys[:-1])
    return int(keys[same[0]]) if same.size else None


def bytes_to_find_repeated(keys: np.ndarray) -> int:
    """Return the maximum memory in bytes that ``repeated`` allocates for the keys.

    The memory holds a hash table, and copies of the keys that collided in the table.
    """
    count = len(keys)
    if (keys[1:] > keys[:-1]).all():
        return count
    return count + (4 << count.bit_length() + 1) + 2 * keys.nbytes if _FEW < count <= _MANY else count


def _contended(keys: np.ndarray, factor: int) -> Tuple[Optional[int], np.ndarray]:
    """Run one round of ``repeated``. Return a duplicate key (or None), and the keys for the next round."""
    bits = len(keys).bit_length() + 1  # two to four slots per key
    taken = np.empty(1 << bits, np.int32)
    found = np.empty(_CHUNK, np.int32)
    for _, places_of, numbers in _hashed(keys, factor, 64 - bits):
        taken[places_of] = numbers
    lost: List[np.ndarray] = []
    for start, places_of, numbers in _hashed(keys, factor, 64 - bits):
        there = taken.take(places_of, out=found[:len(places_of)], mode="clip")  # clip skips the bounds check
        losers = np.flatnonzero(there != numbers)
        losing = keys[start + losers]
        twins = losing == keys[there[losers]]
        if twins.any():
            return int(losing[twins][0]), losing
        lost.append(losing)
    return None, np.concatenate(lost)


def _hashed(keys: np.ndarray, factor: int, shift: int) -> Iterator[Tuple[int, np.ndarray, np.ndarray]]:
    """Yield for each chunk of keys: the index of the first key, the hashes (upper bits of a product), and the indices
    of the keys.

    The generator reuses the arrays for the next chunk, so that they stay in the CPU cache.
    """
    products = np.empty(_CHUNK, np.uint64)
    numbers = np.arange(_CHUNK, dtype=np.int32)
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start:start + _CHUNK].view(np.uint64)
        hashes = products[:len(chunk)]
        np.multiply(chunk, np.uint64(factor), out=hashes)
        np.right_shift(hashes, np.uint64(shift), out=hashes)
        yield start, hashes.view(np.int64), numbers[:len(chunk)]
        numbers += np.int32(_CHUNK)


def belongs(keys: np.ndarray, rank: int, ranks: int) -> np.ndarray:
    """Return for each key whether ``|key| % ranks == rank``, as bool[n]. The absolute value of -2^63 is 2^63.

    Args:
        keys: int64[n].
    """
    magnitudes = np.abs(keys).view(np.uint64)  # abs(-2^63) overflows to the bits of unsigned 2^63
    return magnitudes % np.uint64(ranks) == np.uint64(rank)


def check_rank(rank: int, ranks: int) -> None:
    """Raise ``ValueError`` unless the rank exists."""
    if ranks < 1 or not 0 <= rank < ranks:
        raise ValueError("rank {} is not in [0, {})".format(rank, ranks))
