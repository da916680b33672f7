"""Streams of ids: seeded, so that every run and every contender sees the same ones."""
import os

import numpy as np

#: set by ``--small``, for this process and those that it starts: sizes with which nothing takes long, and says nothing
SMALL_VARIABLE = "BENCH_SMALL"

_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

#: where keys stand in hash tables of ours; of a daemon it is random
HASH_SEED = 1

#: ids of a batch of 8,192 rows with 26 features
BATCH_ROWS = 8192
FEATURES = 26
BATCH_IDS = BATCH_ROWS * FEATURES
_PAGE_IDS = 512  # int64 of a page of memory


def is_small() -> bool:
    """Are sizes small, to see that a case runs?"""
    return SMALL_VARIABLE in os.environ


def sized(full: int, small: int) -> int:
    """A size of a workload: ``full``, or ``small`` in a run with small sizes."""
    return small if is_small() else full


def batch_rows() -> int:
    """Rows of a batch."""
    return sized(BATCH_ROWS, 128)


def batch_ids() -> int:
    """Ids of a batch."""
    return batch_rows() * FEATURES


def scramble(numbers: np.ndarray) -> np.ndarray:
    """A bijection of 64 bits, so that neighbours are strangers: int64[n] -> int64[n]."""
    mixed = numbers.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
    return (mixed ^ (mixed >> np.uint64(31))).view(np.int64)


class Zipf:
    """Ranks 0 to ``keys`` - 1, rank r drawn in proportion to (r + 1) ** -exponent.

    Exponent 0 is uniform. Needs 8 bytes per key.
    """

    def __init__(self, keys: int, exponent: float, seed: int) -> None:
        if keys < 1:
            raise ValueError("keys must be at least 1, not {}".format(keys))
        self._keys = keys
        self._exponent = exponent
        self._random = np.random.RandomState(seed)
        if exponent:
            self._cuts = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -exponent)

    def ranks(self, n: int) -> np.ndarray:
        """The next n ranks: int64[n]."""
        if not self._exponent:
            return self._random.randint(0, self._keys, size=n, dtype=np.int64)
        drawn = np.searchsorted(self._cuts, self._random.random_sample(n) * self._cuts[-1], side="right")
        return np.minimum(drawn, self._keys - 1).astype(np.int64)

    def keys(self, n: int) -> np.ndarray:
        """The next n ranks, scrambled over 64 bits: int64[n]."""
        return scramble(self.ranks(n))


#: by name: exponent of the distribution
DISTRIBUTIONS = {"zipf-1.05": 1.05, "zipf-1.2": 1.2, "uniform": 0.0}


def batches(distribution: str, *, keys: int, count: int, ids: int, seed: int = 1) -> np.ndarray:
    """Some batches of scrambled keys: int64[count, ids]."""
    stream = Zipf(keys, DISTRIBUTIONS[distribution], seed)
    return stream.keys(count * ids).reshape(count, ids)


def checksum(ids: np.ndarray) -> int:
    """What a process computes of a batch that is handed to it: one id per page."""
    return int(np.bitwise_xor.reduce(ids[::_PAGE_IDS]))
