"""Functions that compute the rates and the bottleneck of a daemon from successive answers to ``status``.

Rates are differences of counters. The time that a process waits is estimated from the fraction of answers in which the
process waits. docs/how-to/operations.md describes the rule for the bottleneck.
"""
import collections
from typing import Any, Counter, Dict, Iterator, List, Mapping, Optional, Sequence, Set

from ascpipe.layout.words import (
    WAIT_BATCH,
    WAIT_CUT,
    WAIT_DISK,
    WAIT_KEYS,
    WAIT_PLAN,
    WAIT_RANKS,
    WAIT_READ,
    WAIT_SAVE,
    WAIT_SENTENCES,
)

Status = Mapping[str, Any]

INPUT = "input"
KEY_WORKER = "key worker"
TABLE_WORKER = "table worker"
DISK = "disk"
PEER = "peer"
STEP = "step"
WAITS = (KEY_WORKER, TABLE_WORKER, DISK, PEER)  #: bottlenecks for which a step waits
COMPILING = "compiling kernels"  #: workers compile kernels before the first batch, once for each version
NOTHING = "-"  #: shown if there is no session

#: bottleneck by the reason for which the training step waits
_LIMITS = {WAIT_SENTENCES[wait]: word for wait, word in (
    (WAIT_KEYS, KEY_WORKER), (WAIT_PLAN, TABLE_WORKER), (WAIT_READ, TABLE_WORKER), (WAIT_CUT, TABLE_WORKER),
    (WAIT_DISK, DISK), (WAIT_SAVE, DISK), (WAIT_RANKS, PEER))}

_NOTICED = 0.1  # minimum share of waiting time that counts
_MOSTLY = 0.5  # share of the time
_NEAR_EMPTY = 2  # frames: one batch in training, and one batch in flight


def rates(before: Status, after: Status) -> Dict[str, Any]:
    """Return the rates of a daemon between two of its answers to ``status``.

    Returns:
        ``seconds`` between the answers. ``steps``, ``ids``, ``rows_in`` and ``rows_out`` (of the device), ``rows_read``
        and ``rows_written`` (of disks) per second. ``device_hit_rate``, or None without lookups. ``host_hit_rate``: the
        share of host rows among the rows swapped in, or None if there are no such rows. ``depth`` and ``frames`` of the
        rings at the end. ``tables`` and ``rings``: these values per table name or stream.
    """
    seconds = after["uptime_s"] - before["uptime_s"]
    earlier = before if _run(before) == _run(after) else {"tables": [], "rings": []}
    tables = [_of_table(old, table, seconds) for old, table in _pairs(earlier["tables"], after["tables"], "name")]
    rings = [_of_ring(old, ring, seconds) for old, ring in _pairs(
        [ring for ring in earlier["rings"] if ring["channel"] == "train"],
        [ring for ring in after["rings"] if ring["channel"] == "train"], "stream")]
    total = {name: sum(table[name] for table in tables)
             for name in ("ids", "hits", "looked_up", "rows_in", "rows_out", "rows_read", "rows_written")}
    return {
        "seconds": seconds, "steps": sum(ring["steps"] for ring in rings),
        **{name: total[name] for name in ("ids", "rows_in", "rows_out", "rows_read", "rows_written")},
        "device_hit_rate": _share(total["hits"], total["looked_up"]),
        "host_hit_rate": _share(total["rows_in"] - total["rows_read"], total["rows_in"]),
        "depth": sum(ring["depth"] for ring in rings), "frames": sum(ring["frames"] for ring in rings),
        "tables": tables, "rings": rings,
    }


def waiting(looks: Sequence[Status]) -> float:
    """Return the fraction of time during which the training step waited for ascpipe or for other ranks."""
    waits = [_waits_for(look) is not None for look in looks if look["rings"]]
    return min(1.0, sum(waits) / max(1, len(waits)) + _for_ranks(looks))


def bottleneck(looks: Sequence[Status]) -> str:
    """Return the bottleneck: ``input``, ``key worker``, ``table worker``, ``disk``, ``peer`` or ``step``.

    If the step waits at least 10 % of the time while more batches are in flight, the bottleneck is the process or disk
    for which it waits most. Otherwise, the bottleneck is ``input`` if usually no batch is in flight and no process has
    work. Otherwise, the bottleneck is ``step``. The result is a dash if there is no session, and COMPILING if workers
    compile kernels at least half of the time.

    Args:
        looks: answers of one daemon, oldest first. More answers result in a finer resolution.
    """
    shares = bottleneck_shares(looks)
    if not shares:
        return NOTHING
    if shares[COMPILING] >= _MOSTLY:
        return COMPILING
    waits = {word: share for word, share in shares.items() if word in WAITS}
    if sum(waits.values()) >= _NOTICED:
        return max(waits, key=lambda word: waits[word])
    return INPUT if shares[INPUT] > shares[STEP] else STEP


def bottleneck_shares(looks: Sequence[Status]) -> Dict[str, float]:
    """Return a dict: name of a bottleneck -> share of the time. The dict is empty if there is no session.

    Args:
        looks: see ``bottleneck``.
    """
    found = _reasons(looks)
    looked = sum(found.values())
    if not looked:
        return {}
    shares = {word: found[word] / looked for word in (*_LIMITS.values(), INPUT, STEP, COMPILING)}
    shares[PEER] += _for_ranks(looks)
    return shares


def busy(looks: Sequence[Status]) -> Dict[str, float]:
    """Return a dict: name of a process in ``waits`` -> fraction of time during which the process was awake. Workers
    without a process are omitted.
    """
    awake: Counter[str] = collections.Counter()
    seen: Counter[str] = collections.Counter()
    for look in looks:
        missing = absent(look)
        for wait in look["waits"]:
            if wait["who"] in missing:
                continue
            seen[wait["who"]] += 1
            awake[wait["who"]] += not wait["asleep"]
    return {name: awake[name] / seen[name] for name in seen}


def absent(look: Status) -> Set[str]:
    """Return the names of workers without a process. For samples of a record, which have no PIDs, return no names."""
    return {"{} worker {}".format(worker["kind"], worker["index"])
            for worker in look["workers"] if not worker.get("pid", True)}


def _reasons(looks: Sequence[Status]) -> "Counter[str]":
    """Count how often each bottleneck was observed in the answers with a session."""
    return collections.Counter(_reason(look) for look in looks if look["rings"])


def _waits_for(look: Status) -> Optional[str]:
    """Return the part of ascpipe for which the step waits, or None if the step does not wait for ascpipe."""
    found = [_LIMITS.get(wait["waits_for"]) for wait in look["waits"] if wait["who"] == "trainer"]
    return found[0] if found else None


def _reason(look: Status) -> str:
    if look.get("compiling"):
        return COMPILING
    waits_for = _waits_for(look)
    waits = {wait["who"]: wait for wait in look["waits"]}
    pump = waits.get("pump")
    is_short = (pump is None or pump["waits_for"] == WAIT_SENTENCES[WAIT_BATCH]) and sum(
        ring["depth"] for ring in look["rings"] if ring["channel"] == "train") <= _NEAR_EMPTY
    if waits_for in (KEY_WORKER, TABLE_WORKER) and is_short:
        return INPUT  # the only batch has just arrived; a slow worker would have a backlog
    if waits_for is not None:
        return waits_for
    return INPUT if is_short and all(wait["asleep"] for name, wait in waits.items() if " worker " in name) else STEP


def _for_ranks(looks: Sequence[Status]) -> float:
    """Return the fraction of time during which this rank waited in exchanges for the slowest rank."""
    told = [look for look in looks if look["exchanges"] is not None]
    if len(told) < 2 or _run(told[0]) != _run(told[-1]):
        return 0.0
    return _per_second(told[-1]["exchanges"]["waited_s"] - told[0]["exchanges"]["waited_s"],
                       told[-1]["uptime_s"] - told[0]["uptime_s"])


def _of_table(old: Mapping[str, Any], table: Mapping[str, Any], seconds: float) -> Dict[str, Any]:
    def done(name: str) -> int:
        return max(0, int(table[name]) - int(old.get(name, 0)))

    filled = min(table["rows"], table["device_rows"]) - min(old.get("rows", 0), table["device_rows"])
    moved_out = max(0, done("misses") - filled) if table["home_rows"] else 0
    looked_up = done("hits") + done("misses")
    return {
        "table": table["name"], "batches": _per_second(done("batches"), seconds),
        "ids": _per_second(done("ids"), seconds), "hits": _per_second(done("hits"), seconds),
        "looked_up": _per_second(looked_up, seconds), "rows_in": _per_second(done("loads"), seconds),
        "rows_out": _per_second(moved_out, seconds), "rows_read": _per_second(done("fetches"), seconds),
        "rows_written": _per_second(done("spills"), seconds),
        "device_hit_rate": _share(done("hits"), looked_up),
        "host_hit_rate": _share(done("loads") - done("fetches"), done("loads")),
    }


def _of_ring(old: Mapping[str, Any], ring: Mapping[str, Any], seconds: float) -> Dict[str, Any]:
    return {"stream": ring["stream"], "steps": _per_second(max(0, ring["trained"] - old.get("trained", 0)), seconds),
            "depth": ring["depth"], "frames": ring["frame_count"], "parked": ring["parked"]}


def _pairs(before: List[Any], after: List[Any], name: str) -> Iterator[List[Any]]:
    known = {one[name]: one for one in before}
    return ([known.get(one[name], {}), one] for one in after)


def _run(status: Status) -> Optional[int]:
    trainer = status["trainer"]
    return None if trainer is None else trainer["run"]


def _per_second(count: float, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _share(part: float, whole: float) -> Optional[float]:
    return min(1.0, max(0.0, part / whole)) if whole > 0 else None
