"""Functions that search arrays of keys, find duplicates, and select the keys of a rank. The functions are pure."""
from typing import Optional, Tuple

import numpy as np

from ascpipe.checkpoint.key_order import order_of, sort_keys


def places(keys: np.ndarray, sought: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Find the positions of keys in a sorted array.

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
        order = order_of(np.ascontiguousarray(sought))
        found = np.empty(len(sought), np.int64)
        found[order] = np.searchsorted(keys, sought[order])
    found.clip(max=len(keys) - 1, out=found)
    return found, keys[found] == sought


_CACHED = 1 << 17  #: number of keys that stay in the CPU cache


def repeated(keys: np.ndarray) -> Optional[int]:
    """Return the least key that occurs more than once, or None if all keys are unique.

    Args:
        keys: int64[n], contiguous; may be reordered.

    Raises:
        OpsMissingError, OpsMismatchError: see ``ascpipe.tfops.load.files_library``.
    """
    if (keys[1:] > keys[:-1]).all():
        return None
    sort_keys(keys)
    same = np.flatnonzero(keys[1:] == keys[:-1])
    return int(keys[same[0]]) if same.size else None


def bytes_to_find_repeated(keys: np.ndarray) -> int:
    """Return the maximum number of bytes that ``repeated`` allocates: a copy of the keys, and the results of
    comparisons."""
    return keys.nbytes + len(keys)


def belongs(keys: np.ndarray, rank: int, ranks: int) -> np.ndarray:
    """Return for each key whether ``|key| % ranks == rank``, as bool[n]. The absolute value of -2^63 is 2^63.

    Args:
        keys: int64[n].
    """
    magnitudes = np.abs(keys).view(np.uint64)  # abs(-2^63) overflows to the bits of unsigned 2^63
    return magnitudes % np.uint64(ranks) == np.uint64(rank)


def check_rank(rank: int, ranks: int) -> None:
    """Raise ``ValueError`` unless ``rank`` is in [0, ranks)."""
    if ranks < 1 or not 0 <= rank < ranks:
        raise ValueError("rank {} is not in [0, {})".format(rank, ranks))
