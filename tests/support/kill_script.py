"""Writes what a trainer does in a test of kills, step by step: a pure function of a seed, of any length."""
import random
from typing import Dict, List, NamedTuple, Tuple

from tests.support.sim_ring import Home

MOST_KEYS = 6  #: distinct ones of a batch and table
KEYS = 200  #: that there are at a time, most of them seldom
CAPACITY = 4096  #: of a table
DIM = 4
FLOATS = 2 * DIM  #: of a row: embedding, Adagrad accumulator
#: A cache of one batch with admission; rows at home alone, with admission; rows on the device alone; a cache of one
#: batch that no cut ever makes smaller, so that it grows all the time.
DEVICE_ROWS = (MOST_KEYS, 0, CAPACITY, MOST_KEYS)
HOMES = (Home(CAPACITY, 3, 2, FLOATS), Home(CAPACITY, 2, 1, FLOATS), Home(), Home(CAPACITY, floats=FLOATS))
TABLES = len(HOMES)
WITH_CUTS = range(3)


class Step(NamedTuple):
    """One batch and what is done before it.

    Attributes:
        keys: of each table.
        timestamp: of the batch, 0 = it has none.
        label: what the model is to learn.
        trains: tables that the step claims, in this order; none = the batch is closed unclaimed.
        cuts: (kind, table, argument) before the step.
        asks: keys per table of an evaluation before the step; empty = there is none.
    """

    keys: Tuple[List[int], ...]
    timestamp: int
    label: float
    trains: Tuple[int, ...]
    cuts: Tuple[Tuple[str, int, int], ...]
    asks: Tuple[List[int], ...]


_ARGUMENTS: Dict[str, List[int]] = {"reset": [0], "threshold": [0, 1, 2, 4], "eviction": [0, 3, 8, 20, 20],
                                   "load": list(range(1000))}


def step(seed: int, number: int) -> Step:
    """Step ``number`` of the script."""
    rng = random.Random(seed << 32 | number)
    dropped = random.Random(seed << 32 | 1 << 31 | number // 6).random() < 0.1  # an iterator that begins anew
    chance = rng.random()
    trains: Tuple[int, ...] = ()
    if not dropped and chance > 0.1:
        trains = tuple(rng.sample(range(TABLES), TABLES if chance > 0.3 else rng.randrange(1, TABLES)))
    cuts = []
    if rng.random() < 0.25:
        kind = rng.choice(["reset", "threshold", "eviction", "eviction", "load"])
        cuts.append((kind, rng.choice(WITH_CUTS), rng.choice(_ARGUMENTS[kind])))
    asks = tuple(_keys(rng, number, 5) for _ in range(TABLES)) if rng.random() < 0.15 else ()
    timestamp = rng.choice([number, number, max(0, number - 2), 0])
    keys = tuple(_keys(rng, number, 10) for _ in range(TABLES))
    return Step(keys, timestamp, rng.random(), trains, tuple(cuts), asks)


def _keys(rng: random.Random, number: int, most: int) -> List[int]:
    """Up to ``most`` ids, MOST_KEYS distinct ones, most of them popular now; which are, changes."""
    newest = number // 3
    popular = [newest - rng.randrange(12) for _ in range(MOST_KEYS)]
    few = sorted({rng.choice([key, key, newest - rng.randrange(KEYS)]) for key in popular})
    return [rng.choice(few) for _ in range(rng.randrange(most + 1))]
