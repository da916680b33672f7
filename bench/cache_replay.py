"""The planner of a table worker, fed with a trace."""
import time
from typing import Dict, Iterator, List, NamedTuple, Sequence

import numpy as np

from ascpipe.kernels.batch_steps import LACKS_VICTIMS
from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.index import LINE_LOAD, make_room
from ascpipe.layout import structs
from ascpipe.tables.key_index import KeyIndex
from ascpipe.tables.table import Table
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


class Moves(NamedTuple):
    """What one batch moves between the device and the rows at home.

    Attributes:
        ins: int64[n]; keys that were not on the device.
        outs: int64[m]; keys whose rows went home for them.
    """

    ins: np.ndarray
    outs: np.ndarray


class Replay(NamedTuple):
    """A whole trace.

    Attributes:
        moves: of each batch.
        misses: keys that were not on the device when their batch was planned.
        refetches: those of them that had a row already.
        horizon_least, horizon_most, horizon_mean: batches known beyond the one being planned.
        plan_us: microseconds per batch for touching, planning and retiring; the median.
    """

    moves: List[Moves]
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
    horizons = []
    seconds = []
    moves = []
    owners = np.zeros(device_rows, np.int64)
    owned = np.zeros(device_rows, bool)
    for batch, plan in zip(unique, plans(unique, occurrences, keys, device_rows, window)):
        moves.append(Moves(batch[~owned[plan.slots] | (owners[plan.slots] != batch)], owners[plan.outs]))
        owners[plan.slots] = batch
        owned[plan.slots] = True
        misses += plan.fresh + plan.loads
        refetches += plan.loads
        horizons.append(plan.horizon)
        seconds.append(plan.seconds)
    return Replay(moves, misses, refetches, min(horizons), max(horizons), float(np.mean(horizons)),
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
    """Bytes per key, beside the floats of its row, and bytes per slot of the device, by the arrays of a table.

    Of a key: its entry, the number that leads to its row of the view, and the index when it has just begun to grow,
    which is its worst point. Of a slot, with home rows: the slot's entry, in the truth and in the view, its bit among
    the free ones, and the victim order.
    """
    index = KeyIndex(spread_of(workloads.HASH_SEED), 2 * GROWN_AT)
    index.clear(GROWN_AT)
    count = LINE_LOAD * index.lines + 1
    make_room(count, index.index)
    table = Table(empty_truth(GROWN_AT, GROWN_AT, home_rows=GROWN_AT), spread_of(workloads.HASH_SEED))
    table.provide(LACKS_VICTIMS, 0)
    of_key = {"entry_bytes": table.nbytes("entries_at") / GROWN_AT, "view_bytes": table.nbytes("row_of_at") / GROWN_AT,
              "index_bytes": index.nbytes / count}
    slots = sum(map(table.nbytes, ("slot_entries_at", "slot_owners_at", "slot_words_at", "scores_at", "numbers_at")))
    return dict(of_key, key_bytes=sum(of_key.values()), slot_bytes=slots / GROWN_AT)
