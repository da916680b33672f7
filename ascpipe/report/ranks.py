"""Figures of the ranks of a run, from the records of their daemons. The functions are pure."""
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ascpipe.control.run_record import Record
from ascpipe.figures.ranks import rank_rates

_START_S = 60.0  # ranks of one run start within this time


def last_exchanges(record: Record) -> Optional[Dict[str, Any]]:
    """Return the newest ``exchanges`` of a record, or None if the run had one rank."""
    found = [sample["exchanges"] for sample in record.samples if sample["exchanges"] is not None]
    return found[-1] if found else None


def of_one_run(record: Record, others: Sequence[Record]) -> List[Record]:
    """Return the records of the ranks of a run, in the order of ranks. The list is empty if the run had one rank.

    Ranks of one run have the same program and number of ranks, and start at nearly the same time.

    Args:
        record: record of one rank.
        others: other records of this machine, with at least one sample each.
    """
    mine = last_exchanges(record)
    if mine is None:
        return []
    found: Dict[int, Tuple[float, Record]] = {mine["rank"]: (0.0, record)}
    for other in others:
        theirs = last_exchanges(other)
        apart = abs(other.samples[0]["time"] - record.samples[0]["time"])
        if (theirs is not None and theirs["ranks"] == mine["ranks"] and other.head["program"] == record.head["program"]
                and apart <= _START_S and apart < found.get(theirs["rank"], (_START_S + 1,))[0]):
            found[theirs["rank"]] = (apart, other)
    return [found[rank][1] for rank in sorted(found)]


def rank_figures(records: Sequence[Record]) -> Optional[Dict[str, Any]]:
    """Return the figures of the ranks of a run, or None for a run with one rank.

    Returns:
        ``count``: number of ranks. ``slowest`` and ``slowest_s``: rank for which other ranks waited longest, and how
        long. ``ranks``: for each recorded rank its ``rank``, ``daemon``, the rates of ``rank_rates`` and ``waits``, a
        list of pairs (seconds since the start, share of time in which the rank waited).
    """
    told = [exchanges for exchanges in map(last_exchanges, records) if exchanges is not None]
    if not told:
        return None
    slowest = max(told, key=lambda one: one["slowest_s"])
    return {"count": slowest["ranks"], "slowest": slowest["slowest"], "slowest_s": round(slowest["slowest_s"], 2),
            "ranks": [_of_rank(record) for record in records]}


def _of_rank(record: Record) -> Dict[str, Any]:
    samples = [sample for sample in record.samples if sample["exchanges"] is not None]
    exchanges = samples[-1]["exchanges"]
    start = record.samples[0]["uptime_s"]
    parts = [(after["uptime_s"] - start, rank_rates(before, after)) for before, after in zip(samples, samples[1:])]
    return {"rank": exchanges["rank"], "daemon": record.head["daemon"],
            **(rank_rates(samples[0], samples[-1]) or _NONE),
            "waits": [(at, rates["waited"]) for at, rates in parts if rates is not None]}


_NONE: Mapping[str, float] = dict.fromkeys(("steps", "sent_bytes", "received_bytes", "exchanging", "waited"), 0.0)
