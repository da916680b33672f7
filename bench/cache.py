"""Comparison of the planner with LRU, LFU and Belady's optimum on a trace of keys: `python -m bench cache`."""
import argparse
import json
from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np

from bench import cache_home, cache_policies

#: names of the numbers that ``cache_replay.memory_of_a_key`` returns
MEMORY_TEXT = (
    "{key_bytes:.1f} bytes per key beside its row: {entry_bytes:.0f} for the entry, {index_bytes:.1f} for the index at "
    "its worst, {view_bytes:.0f} that lead to the view; {slot_bytes:.1f} per slot of a device that is a cache")


class Trace(NamedTuple):
    """Batches of distinct keys in order of first appearance.

    Attributes:
        unique: int64[n] for each batch, its distinct keys.
        occurrences: int32[n] for each batch, the number of occurrences of each key.
        keys: number of distinct keys in the trace.
        largest: number of distinct keys in the largest batch.
    """

    unique: List[np.ndarray]
    occurrences: List[np.ndarray]
    keys: int
    largest: int


class BadTraceError(ValueError):
    """The file is not a valid trace, or the given numbers do not fit the trace."""


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench cache",
        description="Replay a trace of keys with the planner; see docs/how-to/benchmarks.md.")
    parser.add_argument("--trace", metavar="FILE.npy", required=True, help="int64[rows, fields] of keys")
    parser.add_argument("--batch-rows", metavar="B", type=int, required=True, help="rows of a batch")
    parser.add_argument("--device-rows", metavar="N", type=int, required=True, help="number of device rows")
    parser.add_argument("--window", metavar="W", type=int, required=True,
                        help="number of later batches that the planner knows")
    parser.add_argument("--home-rows", metavar="H", type=int, default=0,
                        help="number of home rows; other rows are on disk (default: each key has a home row)")
    parser.add_argument("--fetch-ahead", metavar="F", type=int, default=1,
                        help="number of later batches whose rows are fetched from disk")
    parser.add_argument("--json", metavar="OUT", help="also write the results to this file")
    options = parser.parse_args(arguments)
    try:
        trace = read(options.trace, options.batch_rows)
        results = compare(trace, options.device_rows, options.window, options.home_rows, options.fetch_ahead)
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
    """Read the trace in a file.

    Raises:
        BadTraceError: the file cannot be read, or does not contain int64[rows, fields].
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
    """Split int64[rows, fields] into batches. The last batch may be shorter."""
    if batch_rows < 1:
        raise BadTraceError("--batch-rows must be at least 1, not {}".format(batch_rows))
    unique = []
    occurrences = []
    for start in range(0, len(keys), batch_rows):
        distinct, first, counts = np.unique(keys[start:start + batch_rows], return_index=True, return_counts=True)
        order = np.argsort(first)
        unique.append(distinct[order])
        occurrences.append(counts[order].astype(np.int32))
    return Trace(unique, occurrences, len(np.unique(keys)), max(map(len, unique)))


def compare(trace: Trace, device_rows: int, window: int, home_rows: int = 0, fetch_ahead: int = 1) -> Dict[str, Any]:
    """Return the misses of the planner and of the other policies. With ``home_rows`` the result includes the misses of
    the second level.

    Raises:
        BadTraceError: a batch does not fit into the device rows or the home rows, or the window does not fit into the
            ring.
    """
    from bench import cache_replay  # imports numba, which other commands do not need

    if device_rows < trace.largest:
        raise BadTraceError("--device-rows {}: a batch has {} distinct keys; the device must hold as many".format(
            device_rows, trace.largest))
    if not 0 <= window <= cache_replay.MOST_WINDOW:
        raise BadTraceError("--window must be 0 to {}, not {}".format(cache_replay.MOST_WINDOW, window))
    if home_rows and home_rows < device_rows + trace.largest:
        raise BadTraceError("--home-rows {}: the device has {} rows and a batch {} distinct keys; the host must hold "
                            "both".format(home_rows, device_rows, trace.largest))
    if not 0 <= fetch_ahead <= max(window, 1):  # the default is 1, which has no effect without a window
        raise BadTraceError("--fetch-ahead must be 0 to the window, {}, not {}".format(window, fetch_ahead))
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
    if home_rows:
        steps = [cache_home.Step(moves.ins.tolist(), moves.outs.tolist()) for moves in ours.moves]
        results["home"] = compare_home(batches, steps, home_rows, window, fetch_ahead)
    return results


def compare_home(batches: cache_policies.Batches, steps: Sequence[cache_home.Step], home_rows: int, window: int,
                 fetch_ahead: int) -> Dict[str, Any]:
    """Return the misses of home rows. The arguments are the same as in ``cache_home.replay``.

    The result has the misses of the rule, of the rule with the whole trace as its window, and of the other policies.
    With the whole trace, the rule is optimal among policies with this ``fetch_ahead``.
    """
    ours = cache_home.replay(batches, steps, home_rows, window, fetch_ahead)
    levels = {"": ours, "_min_ahead": cache_home.replay(batches, steps, home_rows, len(batches), fetch_ahead)}
    for name, worth in (("_lru", cache_policies.lru_worth()), ("_lfu", cache_policies.lfu_worth()),
                        ("_min", cache_policies.belady_worth(batches))):
        levels[name] = cache_home.replay_worth(batches, steps, home_rows, worth)
    results: Dict[str, Any] = {
        "rows": home_rows, "fetch_ahead": fetch_ahead, "near_mean": ours.near_mean, "waits": ours.waits,
        "ratio": ours.misses / levels["_min"].misses}
    for name, level in levels.items():
        results["misses" + name] = level.misses
        results["fetches" + name] = level.fetches
        results["spills" + name] = level.spills
    return results


def text_of(results: Dict[str, Any]) -> List[str]:
    """Return the lines of a report."""
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
    return lines + (text_of_home(results["home"], results["batches"]) if "home" in results else [])


def text_of_home(results: Dict[str, Any], batches: int) -> List[str]:
    """Return the lines of a report about the second level."""
    lines = [
        "",
        "{rows} rows at home, the others on disk; rows of {near_mean:.1f} batches after the one being planned are "
        "fetched ({fetch_ahead} asked); {waits} plans waited for home rows".format(**results),
        "{:<22}{:>10}{:>10}{:>10}{:>10}{:>14}".format("", "misses", "to best", "fetches", "spills", "fetches/step"),
    ]
    for name, suffix in (("ascpipe's rule", ""), ("optimum, ahead", "_min_ahead"), ("LRU", "_lru"),
                         ("LFU, half-life 64", "_lfu"), ("Belady's optimum", "_min")):
        misses = results["misses" + suffix]
        fetches = results["fetches" + suffix]
        lines.append("{:<22}{:>10}{:>10.3f}{:>10}{:>10}{:>14.1f}".format(
            name, misses, misses / results["misses_min"], fetches, results["spills" + suffix], fetches / batches))
    return lines
