"""Keys: where they are in a set, whether one comes twice, and which rank each belongs to.  Pure."""
from typing import Iterator, List, Optional, Tuple

import numpy as np


def places(keys: np.ndarray, sought: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Where keys are in a set.

    Args:
        keys: int64[n], in order, each once.
        sought: int64[m].

    Returns:
        int64[m]: the place of each; bool[m]: whether it is there at all, else its place means nothing.
    """
    if not len(keys):
        return np.zeros(len(sought), np.int64), np.zeros(len(sought), bool)
    found = np.searchsorted(keys, sought).clip(max=len(keys) - 1)
    return found, keys[found] == sought


_FEW = 1 << 12  #: keys that are sorted at once
_MANY = (1 << 31) - 1  #: as many as an int32 counts
_CHUNK = 1 << 16
_FACTORS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xC2B2AE3D27D4EB4F)  # odd, of no pattern


def repeated(keys: np.ndarray) -> Optional[int]:
    """A key that comes more than once; None if there is none.

    As exact as sorting all keys, and several times as fast where they spread: each key writes its number into the
    place of its hash. One that finds another number there either meets its own twin, or goes on to the next round
    with those that lost theirs; of twins at most one has the place, so they meet in one round or go on together.

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
    """Return the maximum memory in bytes that ``repeated`` allocates for these keys.

    It allocates a hash table, and copies of the keys that collided in it.
    """
    count = len(keys)
    if (keys[1:] > keys[:-1]).all():
        return count
    return count + (4 << count.bit_length() + 1) + 2 * keys.nbytes if _FEW < count <= _MANY else count


def _contended(keys: np.ndarray, factor: int) -> Tuple[Optional[int], np.ndarray]:
    """A key that met its twin, or None; the keys whose place another one took."""
    bits = len(keys).bit_length() + 1  # two to four places for a key
    taken = np.empty(1 << bits, np.int32)
    found = np.empty(_CHUNK, np.int32)
    for _, places_of, numbers in _hashed(keys, factor, 64 - bits):
        taken[places_of] = numbers
    lost: List[np.ndarray] = []
    for start, places_of, numbers in _hashed(keys, factor, 64 - bits):
        there = taken.take(places_of, out=found[:len(places_of)], mode="clip")  # all are within: no need to look
        losers = np.flatnonzero(there != numbers)
        losing = keys[start + losers]
        twins = losing == keys[there[losers]]
        if twins.any():
            return int(losing[twins][0]), losing
        lost.append(losing)
    return None, np.concatenate(lost)


def _hashed(keys: np.ndarray, factor: int, shift: int) -> Iterator[Tuple[int, np.ndarray, np.ndarray]]:
    """Of each chunk of keys: the number of its first one, the hashes (upper bits of a product), and the numbers.

    The arrays are those of the next chunk, too: so they stay in the processor's cache.
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
    """bool[n]: whether ``|key| % ranks == rank``, as everywhere; -2^63 has its true absolute value.

    Args:
        keys: int64[n].
    """
    magnitudes = np.abs(keys).view(np.uint64)  # of -2^63 the bits are those of 2^63
    return magnitudes % np.uint64(ranks) == np.uint64(rank)


def check_rank(rank: int, ranks: int) -> None:
    """ValueError unless there is such a rank."""
    if ranks < 1 or not 0 <= rank < ranks:
        raise ValueError("rank {} of {} ranks".format(rank, ranks))
