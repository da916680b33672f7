"""Statistics of a recorded run, computed with the functions of ``ascpipe stats``."""
import collections
import contextlib
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ascpipe.control import run_record
from ascpipe.errors import RecordError
from ascpipe.figures.rates import NOTHING, bottleneck, busy, rates
from ascpipe.figures.reading import reading_rates
from ascpipe.logs import one_line
from ascpipe.report.ranks import last_exchanges, of_one_run, rank_figures

_WINDOW = 5  # number of samples from which a bottleneck is computed, as in one interval of `ascpipe stats`


def record_of(name: Optional[str], last: bool) -> run_record.Record:
    """Return the record of the run ``name``. If ``name`` is None or ``last`` is true, return the newest record.

    Raises:
        RecordError: there is no such record, or it is damaged or too short.
    """
    known = run_record.names()
    wanted = known[0] if known and (last or name is None) else name
    if wanted is None or wanted not in known:
        raise RecordError(name or "of a run", "there are {} in {}".format(
            ", ".join(known) or "no records", run_record.base_dir()))
    try:
        record = run_record.read(wanted)
    except (ValueError, OSError) as error:
        raise RecordError(wanted, one_line(str(error))) from error
    if len(record.samples) < 2:
        raise RecordError(wanted, "the run had {} samples, and a report needs 2".format(len(record.samples)))
    return record


def other_records(record: run_record.Record) -> List[run_record.Record]:
    """Return the readable records that may belong to other ranks of a run. A run with one rank has no such records."""
    found: List[run_record.Record] = []
    if last_exchanges(record) is None:
        return found
    for name in run_record.names():
        if name != record.name:
            with contextlib.suppress(ValueError, OSError):  # it is damaged, or was removed
                found.append(run_record.read(name))
    return [other for other in found if other.samples]


def figures_of(record: run_record.Record, others: Sequence[run_record.Record] = ()) -> Dict[str, Any]:
    """Return the statistics that ``report.page`` and ``report.advice_of`` need. The function is pure.

    Args:
        record: record of the run.
        others: records that may belong to other ranks of the run.
    """
    samples = record.samples
    first = samples[0]
    last = samples[-1]
    parts = [rates(old, new) for old, new in zip(samples, samples[1:])]
    times = [sample["uptime_s"] - first["uptime_s"] for sample in samples[1:]]
    whole = rates(first, last)
    settings = record.head["settings"]
    workers = last["workers"]
    return {
        "run": {"daemon": record.head["daemon"], "run": record.head["run"], "started": record.head["since"],
                "program": record.head["program"], "seconds": round(whole["seconds"], 1),
                "steps per second": round(whole["steps"], 2), "ids per second": round(whole["ids"]),
                "ascpipe": record.head["ascpipe"],
                **{name.replace("_", " "): value for name, value in record.head["machine"].items()}},
        "steps": [(at, part["steps"]) for at, part in zip(times, parts)],
        "ids": [(at, part["ids"]) for at, part in zip(times, parts)],
        "bottlenecks": _bottlenecks(samples), "awake": busy(samples),
        "tables": [_table(name, samples, whole) for name in sorted(table["name"] for table in last["tables"])],
        "checkpoints": [{"checkpoint": save.prefix, "at": round(save.at - first["time"], 1),
                         "seconds": round(save.seconds, 2), "bytes": save.bytes, "kind": save.kind}
                        for sample in samples for save in sample["saves"]],
        "ranks": rank_figures(of_one_run(record, others)),
        "reading": reading_rates(first, last), "restarts": sum(worker["restarts"] for worker in workers),
        "failure": last["failure"], "settings": settings, "workers": settings["workers"],
        "table_workers": settings["table_workers"], "cores": record.head["machine"]["cores"]}


def _bottlenecks(samples: List[Dict[str, Any]]) -> Dict[str, float]:
    """Return a dict: name of a bottleneck -> share of the run's time with this bottleneck."""
    found = collections.Counter(bottleneck(samples[start:start + _WINDOW])
                                for start in range(0, len(samples) - 1, _WINDOW - 1))
    del found[NOTHING]
    total = sum(found.values())
    return {name: count / total for name, count in found.items()}


def _table(name: str, samples: List[Dict[str, Any]], whole: Mapping[str, Any]) -> Dict[str, Any]:
    seen = [(sample["uptime_s"] - samples[0]["uptime_s"], table) for sample in samples for table in sample["tables"]
            if table["name"] == name]
    last = seen[-1][1]
    rate = next(table["device_hit_rate"] for table in whole["tables"] if table["table"] == name)
    return {**last, "device_hit_rate": rate, "row_bytes": 4 * last["dim"],
            "growth": [(at, table["rows"]) for at, table in seen]}
