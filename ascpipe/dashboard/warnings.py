"""Function ``warnings_of``, which finds problems in the statistics of a running session and recommends actions."""
import re
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple

from ascpipe.errors.explanations import EXPLANATIONS
from ascpipe.figures.advice import Advice, input_advice, speed_advice
from ascpipe.figures.rates import WAITS

Status = Mapping[str, Any]

_LATE_S = 1.0  # shorter waits for a rank are not mentioned
_CODE = re.compile(r"E\d{3}")


class Warned(NamedTuple):
    """Problem of a session: a description and the recommended action."""

    text: str
    cure: str


def warnings_of(status: Status, told: Mapping[str, Any], share: float, cores: int) -> List[Warned]:
    """Return the problems of a session, the most serious problem first.

    Args:
        status: answer to ``status``.
        told: ``summary`` of the last seconds (``ascpipe/figures/summary.py``).
        share: share of these seconds in which the bottleneck of ``told`` limited the speed.
        cores: number of processors that the daemon may use.
    """
    return [*_failure(status), *_workers(status), *_speed(status, told, share, cores), *_ranks(status),
            *_others(status)]


def _figures(status: Status, told: Mapping[str, Any], cores: int) -> Dict[str, Any]:
    """Return the statistics that ``speed_advice`` needs, without bottlenecks."""
    rates = {one["table"]: one for one in told["tables"]}
    tables = []
    for table in status["tables"]:
        rate = rates.get(table["name"], {"device_hit_rate": None, "rows_in": 0.0, "rows_read": 0.0})
        tables.append({**table, "row_bytes": 4 * table["row_floats"], "device_hit_rate": rate["device_hit_rate"],
                       "loads": round(rate["rows_in"] * told["seconds"]),
                       "fetches": round(rate["rows_read"] * told["seconds"])})
    kinds = [worker["kind"] for worker in status["workers"]]
    return {"bottlenecks": {}, "tables": tables, "reading": told["reading"], "workers": kinds.count("key"),
            "table_workers": kinds.count("table"), "cores": cores}


def _failure(status: Status) -> Iterator[Warned]:
    if status["failure"]:
        code = _CODE.match(status["failure"])
        explained = EXPLANATIONS.get(code.group()) if code else None
        yield Warned("The session has failed: {}".format(status["failure"]),
                     "Read the log with `ascpipe logs`." if explained is None else explained.cure)


def _workers(status: Status) -> Iterator[Warned]:
    for worker in status["workers"]:
        name = "{} worker {}".format(worker["kind"], worker["index"])
        if worker["hangs_s"] > 0:
            yield Warned("The {} has made no progress for {:.0f} s.".format(name, worker["hangs_s"]),
                         "The daemon replaces it after worker_patience_s. If a signal has stopped it, continue it with "
                         "`kill -CONT {}`.".format(worker["pid"]))
        if worker["restarts"]:
            yield Warned("The {} was restarted {} in this session.".format(
                name, "once" if worker["restarts"] == 1 else "{} times".format(worker["restarts"])),
                "`ascpipe logs` shows why. The usual cause is a lack of memory.")


def _speed(status: Status, told: Mapping[str, Any], share: float, cores: int) -> Iterator[Warned]:
    """Yield the advice of `ascpipe tune`. If nothing helps against the bottleneck, yield the bottleneck."""
    found: List[Advice] = []
    if told["slow_input"] is not None:
        for one in input_advice(told["reading"], share):
            yield Warned("Training waits for the input: {}.".format(told["slow_input"]), one.change + ".")
    elif told["bottleneck"] in WAITS:
        found = speed_advice({**_figures(status, told, cores), "bottlenecks": {told["bottleneck"]: share}})
        if not any(one.gain for one in found):
            yield Warned("Training waits for the {}.".format(told["bottleneck"]),
                         "docs/how-to/operations.md names what helps.")
    for one in found or speed_advice(_figures(status, told, cores)):
        yield Warned(one.reason + ".", one.change + ".")


def _ranks(status: Status) -> Iterator[Warned]:
    exchanges = status["exchanges"]
    if exchanges is not None and exchanges["slowest_s"] >= _LATE_S:
        yield Warned("Other ranks waited {:.1f} s for rank {}.".format(exchanges["slowest_s"], exchanges["slowest"]),
                     "Compare its input, its processors and its network with the other ranks.")


def _others(status: Status) -> Iterator[Warned]:
    reading = status.get("reading")
    if reading and reading["skipped"]:
        yield Warned("asc.data.read skipped {} bad records.".format(reading["skipped"]),
                     "`ascpipe data check FILE` names them.")
    for wait in status["waits"]:
        if wait["late"]:
            yield Warned("The {} was woken late {} times.".format(wait["who"], wait["late"]),
                         "This is a bug of ascpipe. Report it with the output of `ascpipe status --json`.")
