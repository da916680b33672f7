"""Function ``advice``, which finds problems in the statistics of a training run and recommends actions."""
import re
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from ascpipe.errors.explanations import EXPLANATIONS
from ascpipe.figures.rates import DISK, INPUT, KEY_WORKER, PEER, TABLE_WORKER

_FULL = 0.9  # share of a table's rows that are in use
_LOW_HITS = 0.5  # device hit rate
_LATE_S = 1.0  # shorter waits for a rank are not mentioned
_CODE = re.compile(r"E\d{3}")

#: recommended action for each bottleneck; docs/how-to/operations.md contains the same list
_CURES = {
    KEY_WORKER: "Start the daemon with more --workers.",
    TABLE_WORKER: "Start the daemon with more --table-workers if there are several tables.",
    DISK: "Use more host rows or faster disks. If steps wait for a save, raise save_log_bytes.",
    PEER: "Look for the slowest rank in the panel Ranks.",
    INPUT: "Make the dataset faster, for example with asc.data.read or more parallel calls.",
}


class Advice(NamedTuple):
    """Problem of a training run: a description and the recommended action."""

    text: str
    cure: str


def advice(status: Mapping[str, Any], told: Mapping[str, Any]) -> List[Advice]:
    """Return the problems of a training run, the most serious problem first.

    Args:
        status: answer to ``status``.
        told: ``summary`` of the last seconds (``ascpipe/figures/summary.py``).
    """
    return [*_failure(status), *_workers(status), *_bottleneck(told), *_tables(status, told), *_ranks(status),
            *_others(status)]


def _failure(status: Mapping[str, Any]) -> Iterator[Advice]:
    if status["failure"]:
        code = _CODE.match(status["failure"])
        explained = EXPLANATIONS.get(code.group()) if code else None
        yield Advice("The session has failed: {}".format(status["failure"]),
                     "Read the log with `ascpipe logs`." if explained is None else explained.cure)


def _workers(status: Mapping[str, Any]) -> Iterator[Advice]:
    for worker in status["workers"]:
        name = "{} worker {}".format(worker["kind"], worker["index"])
        if worker["hangs_s"] > 0:
            yield Advice("The {} has made no progress for {:.0f} s.".format(name, worker["hangs_s"]),
                         "The daemon replaces it after worker_patience_s. If a signal has stopped it, continue it with "
                         "`kill -CONT {}`.".format(worker["pid"]))
        if worker["restarts"]:
            yield Advice("The {} was restarted {} in this session.".format(name, _times(worker["restarts"])),
                         "`ascpipe logs --worker {}-{}` shows why. The usual cause is a lack of memory.".format(
                             worker["kind"], worker["index"]))


def _bottleneck(told: Mapping[str, Any]) -> Iterator[Advice]:
    cure = _CURES.get(told["bottleneck"])
    if cure is not None:
        slow = "" if told["slow_input"] is None else ": {}".format(told["slow_input"])
        yield Advice("Training waits for the {}{}.".format(told["bottleneck"], slow), cure)


def _tables(status: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[Advice]:
    rates: Dict[str, Mapping[str, Any]] = {one["table"]: one for one in told["tables"]}
    for table in status["tables"]:
        name = table["name"]
        limit = (table["home_rows"] or table["device_rows"]) + table["disk_slots"]
        if table["rows"] >= _FULL * limit:
            yield Advice("Table {!r} is nearly full: {:,} of {:,} rows are in use.".format(name, table["rows"], limit),
                         "Raise device_vocabulary_size, host_vocabulary_size or ssd_vocabulary_size of create_table, "
                         "or evict old keys.")
        hits = _rate_of(rates, name)
        if hits is not None and hits < _LOW_HITS and rates[name]["rows_in"] > 0:
            yield Advice("Only {:.0f} % of the rows of table {!r} are on the device when a step needs them.".format(
                100 * hits, name), "Raise device_vocabulary_size.")
        if table["save_waits"]:
            yield Advice("Training waited {} for a background save of table {!r}.".format(
                _times(table["save_waits"]), name), "Raise save_log_bytes.")


def _ranks(status: Mapping[str, Any]) -> Iterator[Advice]:
    exchanges = status["exchanges"]
    if exchanges is not None and exchanges["slowest_s"] >= _LATE_S:
        yield Advice("Other ranks waited {:.1f} s for rank {}.".format(exchanges["slowest_s"], exchanges["slowest"]),
                     "Compare its input, its processors and its network with the other ranks.")


def _others(status: Mapping[str, Any]) -> Iterator[Advice]:
    reading = status.get("reading")
    if reading and reading["skipped"]:
        yield Advice("asc.data.read skipped {} bad records.".format(reading["skipped"]),
                     "`ascpipe data check FILE` names them.")
    for wait in status["waits"]:
        if wait["late"]:
            yield Advice("The {} was woken late {}.".format(wait["who"], _times(wait["late"])),
                         "This is a bug of ascpipe. Report it with the output of `ascpipe status --json`.")


def _rate_of(rates: Mapping[str, Mapping[str, Any]], name: str) -> Optional[float]:
    found: Optional[float] = rates[name]["device_hit_rate"] if name in rates else None
    return found


def _times(count: int) -> str:
    return "once" if count == 1 else "{} times".format(count)
