"""Statistics of a recorded run, computed with the functions of ``ascpipe stats``."""
import collections
import contextlib
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ascpipe import names
from ascpipe.control import run_record
from ascpipe.control.lock import holder_of
from ascpipe.errors import RecordError
from ascpipe.figures.rates import NOTHING, bottleneck, busy, rates
from ascpipe.figures.reading import reading_rates
from ascpipe.logs import one_line
from ascpipe.report.ranks import last_exchanges, of_one_run, rank_figures

_SHORTEST_S = 1.0  # minimum time over which the speed is measured
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


def is_running(record: run_record.Record) -> bool:
    """Return True if the daemon that writes the record is running, and the record has no end yet."""
    daemon_pid = record.head.get("daemon_pid")
    return (record.samples[-1]["end"] is None and daemon_pid is not None
            and holder_of(names.run_dir(record.head["daemon"])) == daemon_pid)


def figures_of(record: run_record.Record, others: Sequence[run_record.Record] = (), *,
               running: bool = False) -> Dict[str, Any]:
    """Return the statistics that ``report.page`` and ``report.advice_of`` need. The function is pure.

    Args:
        record: record of the run.
        others: records that may belong to other ranks of the run.
        running: whether the run continues (``is_running``).
    """
    samples = record.samples
    first = samples[0]
    last = samples[-1]
    parts = [rates(old, new) for old, new in zip(samples, samples[1:])]
    times = [sample["uptime_s"] - first["uptime_s"] for sample in samples[1:]]
    whole = rates(first, last)
    trained = rates(_start_of_training(samples), last)
    settings = record.head["settings"]
    workers = last["workers"]
    return {
        "run": {"daemon": record.head["daemon"], "run": record.head["run"], "started": record.head["since"],
                "program": record.head["program"], "seconds": round(whole["seconds"], 1),
                "steps per second": round(trained["steps"], 2), "ids per second": round(trained["ids"]),
                "ascpipe": record.head["ascpipe"],
                **{name.replace("_", " "): value for name, value in record.head["machine"].items()}},
        "steps": [(at, part["steps"]) for at, part in zip(times, parts)],
        "ids": [(at, part["ids"]) for at, part in zip(times, parts)],
        "bottlenecks": _bottlenecks(_since_first_batch(samples)), "awake": busy(_since_first_batch(samples)),
        "tables": [_table(name, samples, whole) for name in sorted(table["name"] for table in last["tables"])],
        "checkpoints": [{"checkpoint": save.prefix, "at": round(save.at - first["time"], 1),
                         "seconds": round(save.seconds, 2), "bytes": save.bytes, "kind": save.kind}
                        for sample in samples for save in sample["saves"]],
        "ranks": rank_figures(of_one_run(record, others)),
        "reading": reading_rates(first, last), "restarts": sum(worker["restarts"] for worker in workers),
        "failure": _failure(record, running), "running": running, "settings": settings, "workers": settings["workers"],
        "table_workers": settings["table_workers"], "cores": record.head["machine"]["cores"]}


def _failure(record: run_record.Record, running: bool) -> Optional[str]:
    """Return a sentence that states why a run failed, or None if the run continues or had no error."""
    last = record.samples[-1]
    failure: Optional[str] = last["failure"]
    if failure is not None or running:
        return failure
    if last["end"] == run_record.TRAINER_DIED:
        return "The trainer (pid {}) died without a message.".format(record.head["pid"])
    if last["end"] is None and "daemon_pid" in record.head:  # daemons of earlier versions wrote no end
        return ("The record ends without an end of the run: the daemon (pid {}) was killed, or could not write the "
                "record.".format(record.head["daemon_pid"]))
    return None


def _since_first_batch(samples: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return the samples from the first trained or evaluated batch on. Before this batch, the program builds its graph
    or restores a checkpoint, and workers may compile kernels.
    """
    return samples[next((number for number, sample in enumerate(samples)
                         if any(ring["trained"] for ring in sample["rings"])), len(samples)):]


def _start_of_training(samples: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Return the sample from which the speed of the run is measured: the first sample after a trained batch. If this
    sample is less than a second older than the last sample, return the first sample of the run.
    """
    end = samples[-1]["uptime_s"] - _SHORTEST_S
    return next((sample for sample in samples if sample["uptime_s"] <= end and any(
        ring["trained"] for ring in sample["rings"] if ring["channel"] == "train")), samples[0])


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
    return {**last, "device_hit_rate": rate, "row_bytes": 4 * last.get("row_floats", last["dim"]),
            "growth": [(at, table["rows"]) for at, table in seen]}
