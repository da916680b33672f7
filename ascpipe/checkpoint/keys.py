"""Keys: where they are in a set, and whether one comes twice.  Pure."""
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
_CHUNK = 1 << 18
_FACTORS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xC2B2AE3D27D4EB4F)  # odd, of no pattern


def repeated(keys: np.ndarray) -> Optional[int]:
    """A key that comes more than once; None if there is none.

    As exact as sorting all keys, and several times as fast where they spread: each key writes its number into the
    place of its hash. One who finds another number there either meets its own twin, or goes on to the next round
    with those who lost theirs; of twins at most one has the place, so they meet in one round or go on together.

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


def _contended(keys: np.ndarray, factor: int) -> Tuple[Optional[int], np.ndarray]:
    """A key that met its twin, or None; the keys whose place another one took."""
    shift = np.uint64(64 - len(keys).bit_length() - 1)  # two to four places for a key
    taken = np.empty(1 << 64 - int(shift), np.int32)
    for start, places_of in _hashed(keys, factor, shift):
        taken[places_of] = np.arange(start, start + len(places_of), dtype=np.int32)
    lost: List[np.ndarray] = []
    for start, places_of in _hashed(keys, factor, shift):
        there = taken[places_of]
        losers = np.flatnonzero(there != np.arange(start, start + len(there), dtype=np.int32))
        losing = keys[start + losers]
        twins = losing == keys[there[losers]]
        if twins.any():
            return int(losing[twins][0]), losing
        lost.append(losing)
    return None, np.concatenate(lost)


def _hashed(keys: np.ndarray, factor: int, shift: np.uint64) -> Iterator[Tuple[int, np.ndarray]]:
    """Of each chunk of keys, the number of its first one and the hashes: the upper bits of a product."""
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start:start + _CHUNK].view(np.uint64)
        yield start, ((chunk * np.uint64(factor)) >> shift).view(np.int64)
