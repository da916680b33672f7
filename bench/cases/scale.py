"""Planning time of a batch by table size. Only the planner is measured, with the worker's compiled steps in
private memory.

``rows`` is a table with device rows only and 10^5 to 10^8 known keys. ``device`` is a table with 10^7 home rows and
10^4 to 10^7 device rows. All contenders of a variant get batches with the same number of distinct keys. One call
touches, plans and retires some batches.
"""
import contextlib
from typing import Callable, Dict, Iterator, List, Tuple

import numpy as np

from bench import cache, workloads
from bench.goals import MEMORY, RANGE, Goal
from bench.harness import Case, Contenders

BATCHES = 8  #: number of different batches in a call
HOME_KEYS = 10 ** 7
DISTINCT = {"rows": 30000, "device": 8000}
SIZES = {"rows": (10 ** 5, 10 ** 6, 10 ** 7, 10 ** 8), "device": (10 ** 4, 10 ** 5, 10 ** 6, 10 ** 7)}
_SMALLER = 100  #: factor by which a small run is smaller


def _sizes(variant: str) -> Tuple[int, ...]:
    return tuple(size // _SMALLER for size in SIZES[variant]) if workloads.is_small() else SIZES[variant]


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    from bench.cache_replay import memory_of_a_key
    from bench.planner import Planner

    calls: Dict[str, Callable[[], object]] = {}
    for size in _sizes(variant):
        keys, device_rows = (size, size) if variant == "rows" else (workloads.sized(HOME_KEYS, 10 ** 5), size)
        batches = _batches(keys, DISTINCT[variant])
        planner = Planner(keys, device_rows, at_home=variant != "rows", most_keys=max(map(len, batches)))
        name = "{:,} {}".format(size, "rows" if variant == "rows" else "rows on the device")
        calls[name] = planner.step(batches)
    memory = memory_of_a_key()
    notes = {"memory": cache.MEMORY_TEXT.format(**memory)}
    yield Contenders(BATCHES, calls, notes=lambda: notes, memory=memory["key_bytes"])


def _batches(keys: int, distinct: int) -> List[np.ndarray]:
    """Return batches of ``distinct`` distinct keys each. Keys are drawn by Zipf 1.05."""
    distinct = min(workloads.sized(distinct, distinct // _SMALLER), keys // 2)
    stream = workloads.Zipf(keys, 1.05, seed=1)
    return [workloads.scramble(_first(stream, distinct)) for _ in range(BATCHES)]


def _first(stream: workloads.Zipf, distinct: int) -> np.ndarray:
    """Return int64[distinct]: ranks in order of first appearance."""
    drawn = np.zeros(0, np.int64)
    while True:
        drawn = np.concatenate([drawn, stream.ranks(4 * distinct)])
        unique, first = np.unique(drawn, return_index=True)
        if len(unique) >= distinct:
            return drawn[np.sort(first)][:distinct]


CASE = Case("scale", "batch", "one_thread", tuple(SIZES), prepare,
            "planning of a batch with {:,} or {:,} distinct keys, by size of the table".format(*DISTINCT.values()),
            {variant: [Goal(RANGE, 2.5), Goal(MEMORY, 72)] for variant in SIZES})
