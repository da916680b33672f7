"""Seeded streams of ids. Every run and every contender gets the same ids."""
import os

import numpy as np

#: set by ``--small`` for this process and its children; small sizes make runs fast, but figures meaningless
SMALL_VARIABLE = "BENCH_SMALL"

_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

#: seed of our hash tables; the seed of a daemon is random
HASH_SEED = 1

#: ids of a batch of 8,192 rows with 26 features
BATCH_ROWS = 8192
FEATURES = 26
BATCH_IDS = BATCH_ROWS * FEATURES
_PAGE_IDS = 512  # number of int64 in a page of memory


def is_small() -> bool:
    """Return whether sizes are small, to test that a case runs."""
    return SMALL_VARIABLE in os.environ


def sized(full: int, small: int) -> int:
    """Return a size of a workload: ``full``, or ``small`` in a run with small sizes."""
    return small if is_small() else full


def batch_rows() -> int:
    """Return the number of rows of a batch."""
    return sized(BATCH_ROWS, 128)


def batch_ids() -> int:
    """Return the number of ids of a batch."""
    return batch_rows() * FEATURES


def scramble(numbers: np.ndarray) -> np.ndarray:
    """Apply a bijection of 64 bits that scatters neighbours: int64[n] -> int64[n]."""
    mixed = numbers.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
    return (mixed ^ (mixed >> np.uint64(31))).view(np.int64)


class Zipf:
    """Zipf distribution of the ranks 0 to ``keys`` - 1. The probability of rank r is proportional to (r + 1) **
    -exponent.

    Exponent 0 is uniform. The object needs 8 bytes per key.
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
        """Return the next n ranks: int64[n]."""
        if not self._exponent:
            return self._random.randint(0, self._keys, size=n, dtype=np.int64)
        drawn = np.searchsorted(self._cuts, self._random.random_sample(n) * self._cuts[-1], side="right")
        return np.minimum(drawn, self._keys - 1).astype(np.int64)

    def keys(self, n: int) -> np.ndarray:
        """Return the next n ranks, scattered over 64 bits: int64[n]."""
        return scramble(self.ranks(n))


#: exponent of the distribution by name
DISTRIBUTIONS = {"zipf-1.05": 1.05, "zipf-1.2": 1.2, "uniform": 0.0}


def batches(distribution: str, *, keys: int, count: int, ids: int, seed: int = 1) -> np.ndarray:
    """Return several batches of scrambled keys: int64[count, ids]."""
    stream = Zipf(keys, DISTRIBUTIONS[distribution], seed)
    return stream.keys(count * ids).reshape(count, ids)


def checksum(ids: np.ndarray) -> int:
    """Return a sum of one id per page, as the work of a process that receives a batch."""
    return int(np.bitwise_xor.reduce(ids[::_PAGE_IDS]))
