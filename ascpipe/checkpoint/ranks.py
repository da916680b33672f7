"""Which rank a key belongs to.  Pure."""
import numpy as np


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
