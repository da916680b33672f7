"""Functions that compute the content of the dashboard from answers to ``status``.

The figures are the same as in ``ascpipe status --json``, ``ascpipe stats --json`` and ``ascpipe top``, and are computed
by the same functions.
"""
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascpipe.dashboard.history import OF_TABLE, Values
from ascpipe.dashboard.warnings import warnings_of
from ascpipe.figures.rates import bottleneck_shares, busy
from ascpipe.figures.summary import limit, state_of, summary

Status = Dict[str, Any]
Times = Mapping[int, float]  #: seconds of processor time by PID


class Look(NamedTuple):
    """Answer to ``status``, and the processor time in seconds of each process in the answer, by PID."""

    status: Status
    times: Times


def snapshot(looks: Sequence[Look]) -> Dict[str, Any]:
    """Return the content of the dashboard.

    Args:
        looks: answers of one daemon, oldest first, at least one.

    Returns:
        A dict with these fields:

        - ``status``: the last answer; ``rates``: the output of ``ascpipe stats --json``; ``limit``: the bottleneck and
          the slow part of the input, as a sentence
        - ``processes``: name, ``pid``, ``state``, ``restarts``, ``awake`` (share of time), ``waits_for``, ``cpu``
          (processors used) and ``cpu_s`` (processor time in seconds) of each process; None if unknown
        - ``advice``: findings with ``text`` and ``cure``
    """
    statuses = [look.status for look in looks]
    told = summary(statuses)
    return {"status": statuses[-1], "rates": told, "limit": limit(told), "processes": _processes(looks),
            "advice": [dict(one._asdict()) for one in warnings_of(
                statuses[-1], told, bottleneck_shares(statuses).get(told["bottleneck"], 0.0),
                len(os.sched_getaffinity(0)))]}


def point(looks: Sequence[Look], shown: Mapping[str, Any]) -> Tuple[Dict[str, Optional[float]], Dict[str, Values]]:
    """Return the next value of each series in ``History``, for the training run and for each table.

    Args:
        looks: see ``snapshot``.
        shown: the ``snapshot`` of these answers.
    """
    told = shown["rates"]
    reading = told["reading"]
    overview = {name: told[name] for name in ("steps", "ids", "step_waits", "device_hit_rate", "host_hit_rate",
                                              "rows_in", "rows_out", "rows_read", "depth")}
    overview["rows_written"] = told["rows_written"]
    overview["records"] = None if reading is None else reading["records"]
    keys = {table["name"]: table["keys"] for table in shown["status"]["tables"]}
    return overview, {table["table"]: {name: keys.get(table["table"]) if name == "keys" else table[name]
                                       for name in OF_TABLE} for table in told["tables"]}


def pids_of(status: Status) -> List[int]:
    """Return the PIDs of the daemon, the trainer and the running workers."""
    trainer = [] if status["trainer"] is None else [status["trainer"]["pid"]]
    return [status["pid"], *trainer, *(worker["pid"] for worker in status["workers"] if worker["pid"])]


def _processes(looks: Sequence[Look]) -> List[Dict[str, Any]]:
    status = looks[-1].status
    awake = busy([look.status for look in looks])
    waits = {wait["who"]: wait["waits_for"] for wait in status["waits"]}
    found = [("daemon", status["pid"], status["state"], 0)]
    if status["trainer"] is not None:
        found.append(("trainer", status["trainer"]["pid"], "connected", 0))
    found += [("{} worker {}".format(worker["kind"], worker["index"]), worker["pid"],
               state_of(worker, status), worker["restarts"]) for worker in status["workers"]]
    seconds = looks[-1].status["uptime_s"] - looks[0].status["uptime_s"]
    return [{"process": name, "pid": pid, "state": state, "restarts": restarts, "awake": awake.get(name),
             "waits_for": waits.get(name), "cpu": _share(looks[0].times.get(pid), looks[-1].times.get(pid), seconds),
             "cpu_s": looks[-1].times.get(pid)} for name, pid, state, restarts in found]


def _share(before: Optional[float], after: Optional[float], seconds: float) -> Optional[float]:
    return None if before is None or after is None or seconds <= 0 else (after - before) / seconds
