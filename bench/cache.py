"""`python -m bench cache`: a trace of keys through the real planner, beside LRU, LFU and Belady's optimum."""
import argparse
import json
from typing import Any, Dict, List, NamedTuple

import numpy as np

from bench import cache_policies

#: what ``cache_replay.memory_of_a_key`` counts, in words
MEMORY_TEXT = (
    "{key_bytes:.1f} bytes per key beside its row: {entry_bytes:.0f} for the entry, {index_bytes:.1f} for the index at "
    "its worst, {view_bytes:.0f} that lead to the view; {slot_bytes:.1f} per slot of a device that is a cache")


class Trace(NamedTuple):
    """Batches of distinct keys in order of first appearance.

    Attributes:
        unique: int64[n] for each batch; distinct keys.
        occurrences: int32[n] for each batch; how often each occurs.
        keys: distinct keys of the whole trace.
        largest: distinct keys of the largest batch.
    """

    unique: List[np.ndarray]
    occurrences: List[np.ndarray]
    keys: int
    largest: int


class BadTraceError(ValueError):
    """The file is no trace, or the numbers do not fit it."""


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench cache", description="Replay a trace of keys through the planner; see docs/benchmarks.md.")
    parser.add_argument("--trace", metavar="FILE.npy", required=True, help="int64[rows, fields] of keys")
    parser.add_argument("--batch-rows", metavar="B", type=int, required=True, help="rows of a batch")
    parser.add_argument("--device-rows", metavar="N", type=int, required=True, help="rows that the device holds")
    parser.add_argument("--window", metavar="W", type=int, required=True,
                        help="batches after the one being planned that the planner knows")
    parser.add_argument("--json", metavar="OUT", help="write the results there too")
    options = parser.parse_args(arguments)
    try:
        trace = read(options.trace, options.batch_rows)
        results = compare(trace, options.device_rows, options.window)
    except BadTraceError as error:
        parser.error(str(error))
    for line in text_of(results):
        print(line)
    if options.json is not None:
        with open(options.json, "w") as out:
            json.dump(results, out, indent=1)
            out.write("\n")
    return 0


def read(path: str, batch_rows: int) -> Trace:
    """The trace of a file.

    Raises:
        BadTraceError: it cannot be read or does not hold int64[rows, fields].
    """
    try:
        keys = np.load(path)
    except (OSError, ValueError) as error:
        raise BadTraceError("--trace {}: {}".format(path, error)) from error
    if keys.dtype != np.int64 or keys.ndim != 2 or not keys.size:
        raise BadTraceError("--trace {}: it holds {}{}, not int64[rows, fields]".format(
            path, keys.dtype, list(keys.shape)))
    return batches_of(keys, batch_rows)


def batches_of(keys: np.ndarray, batch_rows: int) -> Trace:
    """Cut int64[rows, fields] into batches; the last one may be shorter."""
    if batch_rows < 1:
        raise BadTraceError("--batch-rows must be at least 1, not {}".format(batch_rows))
    unique, occurrences = [], []
    for start in range(0, len(keys), batch_rows):
        distinct, first, counts = np.unique(keys[start:start + batch_rows], return_index=True, return_counts=True)
        order = np.argsort(first)
        unique.append(distinct[order])
        occurrences.append(counts[order].astype(np.int32))
    return Trace(unique, occurrences, len(np.unique(keys)), max(map(len, unique)))


def compare(trace: Trace, device_rows: int, window: int) -> Dict[str, Any]:
    """Misses of the planner and of the others.

    Raises:
        BadTraceError: a batch does not fit the device, or the window not the ring.
    """
    from bench import cache_replay  # numba: not for the commands that do without

    if device_rows < trace.largest:
        raise BadTraceError("--device-rows {}: a batch has {} distinct keys; the device must hold as many".format(
            device_rows, trace.largest))
    if not 0 <= window <= cache_replay.MOST_WINDOW:
        raise BadTraceError("--window must be 0 to {}, not {}".format(cache_replay.MOST_WINDOW, window))
    ours = cache_replay.replay(trace.unique, trace.occurrences, trace.keys, device_rows, window)
    batches = [unique.tolist() for unique in trace.unique]
    others = {"lru": cache_policies.lru(batches, device_rows), "lfu": cache_policies.lfu(batches, device_rows),
              "min": cache_policies.belady(batches, device_rows)}
    results: Dict[str, Any] = {
        "batches": len(batches), "keys": trace.keys, "largest_batch": trace.largest, "device_rows": device_rows,
        "window": window, "horizon_least": ours.horizon_least, "horizon_most": ours.horizon_most,
        "horizon_mean": ours.horizon_mean, "plan_us": ours.plan_us,
        "misses": ours.misses, "refetches": ours.refetches, "ratio": ours.misses / others["min"].all,
    }
    results.update(cache_replay.memory_of_a_key())
    for name, misses in others.items():
        results["misses_" + name] = misses.all
        results["refetches_" + name] = misses.refetches
    return results


def text_of(results: Dict[str, Any]) -> List[str]:
    """Lines of a report."""
    lines = [
        "{batches} batches, {keys} distinct keys, at most {largest_batch} in a batch; {device_rows} rows on the "
        "device".format(**results),
        "horizon: {horizon_mean:.1f} batches after the one being planned ({horizon_least} to {horizon_most}; "
        "{window} asked)".format(**results),
        "planning: {plan_us:.0f} us per batch".format(**results),
        "{:<22}{:>10}{:>10}{:>12}".format("", "misses", "to best", "re-fetches"),
    ]
    least = results["misses_min"]
    for name, suffix in (("ascpipe", ""), ("LRU", "_lru"), ("LFU, half-life 64", "_lfu"), ("Belady's optimum", "_min")):
        misses = results["misses" + suffix]
        lines.append("{:<22}{:>10}{:>10.3f}{:>12}".format(name, misses, misses / least, results["refetches" + suffix]))
    lines.append(MEMORY_TEXT.format(**results))
    return lines
