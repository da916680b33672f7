"""Replay of a trace with the planner of a table worker."""
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
GROWN_AT = 100_000  # number of keys in the index whose memory is measured


class Plan(NamedTuple):
    """Plan of one batch.

    Attributes:
        slots: int32[n], the slot of each key.
        outs: int32[m], slots whose rows moved to home rows, in the order of the choice.
        fresh, loads: number of keys that got their first row, and number of keys whose row was copied from a home row.
        horizon: number of later batches that were known.
        seconds: duration of touching, planning and retiring.
    """

    slots: np.ndarray
    outs: np.ndarray
    fresh: int
    loads: int
    horizon: int
    seconds: float


class Moves(NamedTuple):
    """Moves of one batch between the device and the home rows.

    Attributes:
        ins: int64[n], keys that were not on the device.
        outs: int64[m], keys whose rows moved to home rows for this batch.
    """

    ins: np.ndarray
    outs: np.ndarray


class Replay(NamedTuple):
    """Result of a whole trace.

    Attributes:
        moves: moves of each batch.
        misses: number of keys that were not on the device when their batch was planned.
        refetches: number of the misses whose keys already had a row.
        horizon_least, horizon_most, horizon_mean: number of known batches after the planned batch.
        plan_us: median time in microseconds for touching, planning and retiring a batch.
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
    """Replay a trace.

    Args:
        unique: int64[n] for each batch, its distinct keys.
        occurrences: int32[n] for each batch.
        keys: number of distinct keys in the trace. There is a home row for each key.
        device_rows: number of device rows. The minimum is the number of keys in the largest batch.
        window: maximum number of touched batches after the planned batch.
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
    """Yield the plan of each batch. The arguments are the same as in ``replay``."""
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
        # The arrays are copied, because the frame is reused.
        yield Plan(part.array("slots", len(unique[number])).copy(), part.array("out_slots", part["out_count"]).copy(),
                   part["fresh_count"], part["load_count"], touched - 1 - number, seconds)


def memory_of_a_key() -> Dict[str, float]:
    """Return the bytes per key, without the floats of its row, and the bytes per slot of the device. The numbers are
    computed from the arrays of a table.

    The bytes of a key comprise its entry, its row number in the view, and the index at its largest size per key, just
    after it began to grow. With home rows, the bytes of a slot comprise its entries in the truth and in the view, its
    bit in the free slots, and the victim order.
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
