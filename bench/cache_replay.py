"""The planner of a table worker, fed with a trace."""
import time
from typing import Dict, Iterator, NamedTuple, Sequence

import numpy as np

from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.index import LINE_LOAD, make_room
from ascpipe.kernels.records import ROW
from ascpipe.layout import structs
from ascpipe.tables.key_index import KeyIndex
from bench import workloads
from bench.planner import PLAN_AHEAD, Batches, empty_truth

MOST_WINDOW = structs.MAX_FRAMES - PLAN_AHEAD - 1
GROWN_AT = 100_000  # keys of the index whose memory is told


class Plan(NamedTuple):
    """One batch's plan.

    Attributes:
        slots: int32[n]; slot of each key.
        outs: int32[m]; slots whose rows went home, in the order they were chosen.
        fresh, loads: keys that got their first row, keys whose row came from home.
        horizon: how many batches after this one were known.
        seconds: what touching, planning and retiring took.
    """

    slots: np.ndarray
    outs: np.ndarray
    fresh: int
    loads: int
    horizon: int
    seconds: float


class Replay(NamedTuple):
    """A whole trace.

    Attributes:
        misses: keys that were not on the device when their batch was planned.
        refetches: those of them that had a row already.
        horizon_least, horizon_most, horizon_mean: batches known beyond the one being planned.
        plan_us: microseconds per batch for touching, planning and retiring; the median.
    """

    misses: int
    refetches: int
    horizon_least: int
    horizon_most: int
    horizon_mean: float
    plan_us: float


def replay(unique: Sequence[np.ndarray], occurrences: Sequence[np.ndarray], keys: int, device_rows: int,
           window: int) -> Replay:
    """Run a trace.

    Args:
        unique: int64[n] for each batch; distinct keys.
        occurrences: int32[n] for each batch.
        keys: distinct keys of the whole trace, for which there is room at home.
        device_rows: at least the keys of the largest batch.
        window: batches that are touched beyond the one being planned, while there are that many.
    """
    misses = refetches = 0
    horizons, seconds = [], []
    for plan in plans(unique, occurrences, keys, device_rows, window):
        misses += plan.fresh + plan.loads
        refetches += plan.loads
        horizons.append(plan.horizon)
        seconds.append(plan.seconds)
    return Replay(misses, refetches, min(horizons), max(horizons), float(np.mean(horizons)),
                  1e6 * float(np.median(seconds)))


def plans(unique: Sequence[np.ndarray], occurrences: Sequence[np.ndarray], keys: int, device_rows: int,
          window: int) -> Iterator[Plan]:
    """The plan of each batch in turn; arguments as in ``replay``."""
    truth = empty_truth(keys, device_rows, home_rows=keys)
    batches = Batches(truth, max(map(len, unique)))
    touched = 0
    for number in range(len(unique)):
        started = time.perf_counter()
        while touched <= min(number + window, len(unique) - 1):
            batches.touch(touched, unique[touched], occurrences[touched])
            touched += 1
        part = batches.plan(number)
        if number >= PLAN_AHEAD:
            batches.finish(number - PLAN_AHEAD)
        seconds = time.perf_counter() - started
        # copies: the frame is used again
        yield Plan(part.array("slots", len(unique[number])).copy(), part.array("out_slots", part["out_count"]).copy(),
                   part["fresh_count"], part["load_count"], touched - 1 - number, seconds)


def memory_of_a_key() -> Dict[str, float]:
    """Bytes per key, beside the floats of its row: the entry, the worker's view of it, the index at its worst."""
    index = KeyIndex(spread_of(workloads.HASH_SEED), 2 * GROWN_AT)
    index.clear(GROWN_AT)
    count = LINE_LOAD * index.lines + 1
    make_room(count, index.index)
    return {"entry_bytes": structs.ENTRY.itemsize, "view_bytes": ROW.itemsize,
            "index_bytes": index.nbytes / count}
