"""Command ``ascpipe timeline``, which writes the activity of workers, ranks and readers as a Chrome trace.

The command can merge the activity into a trace of TensorFlow.
"""
import contextlib
import json
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar

import click

from ascpipe import names
from ascpipe.cli.chosen import chosen
from ascpipe.control import messages
from ascpipe.control.client import ask, running_daemons
from ascpipe.errors import ConfigError, NotRunningError
from ascpipe.shm import spans, trainer_spans

_Spans = TypeVar("_Spans", trainer_spans.RecordedExchanges, trainer_spans.RecordedReading)

_MARGIN_US = 100000.0  # microseconds of activity to keep before and after a merged trace


class Recorded(NamedTuple):
    """Recorded spans of one daemon.

    Attributes:
        name: name of the daemon.
        exchanges: exchanges of the trainer with other ranks, or None if there is only one rank.
        reading: batches that the trainer has read with ``asc.data.read``, or None if they were not recorded.
        workers: workers with spans.
    """

    name: str
    exchanges: Optional[trainer_spans.RecordedExchanges]
    reading: Optional[trainer_spans.RecordedReading]
    workers: List[spans.Recorded]


@click.command("timeline", help="Write the activity of workers, ranks and readers of training data as a Chrome trace.",
               short_help="Write recorded activity as a Chrome trace.")
@click.option("--name", "given", multiple=True,
              help="Name of a daemon; repeatable. Default: the same daemon as for `ascpipe status`.")
@click.option("--all", "of_all", is_flag=True,
              help="Use all daemons of this user that record spans.")
@click.option("--output", required=True, type=click.Path(dir_okay=False), help="File to write.")
@click.option("--merge", default=None, type=click.Path(exists=True, dir_okay=False),
              help="TensorFlow timeline to add. Activity of ascpipe more than 0.1 s before or after this timeline is "
                   "omitted.")
@click.option("--last", "seconds", type=click.FloatRange(0.001, 86400), default=None, metavar="SECONDS",
              help="Write only the last SECONDS of ascpipe's activity. Default: all recorded activity.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(given: Tuple[str, ...], of_all: bool, output: str, merge: Optional[str], seconds: Optional[float],
            as_json: bool) -> None:
    """Write the trace. Each daemon must be running and must record spans (see `ascpipe trace` and ``timeline_spans``).
    """
    if given and of_all:
        raise click.UsageError("--all selects all daemons: omit --name")
    events = events_of_daemons(_of_all() if of_all else [
        _of_daemon(name) for name in dict.fromkeys(given or [chosen(None).name])])
    if seconds is not None:
        events = last(events, seconds)
    if merge is not None:
        events = merged(_events(merge), events)
    with open(output, "w") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)
    if as_json:
        click.echo(json.dumps({"file": output, "events": len(events)}, indent=2))
        return
    click.echo("ascpipe: {} events in {}; open it in chrome://tracing or https://ui.perfetto.dev".format(
        len(events), output))


def _of_all() -> List[Recorded]:
    found = []
    for name in running_daemons():
        with contextlib.suppress(ConfigError, NotRunningError):  # the daemon records no spans, or has just exited
            found.append(_of_daemon(name))
    if not found:
        raise ConfigError(
            "timeline_spans", "all daemons that run", 0, "none records spans, or none has done anything yet. Call "
            "`ascpipe trace start --all`, or set ASCPIPE_TIMELINE_SPANS=20000 for the program or daemon")
    return found


def _of_daemon(name: str) -> Recorded:
    run = names.run_dir(name)
    trace = ask(run, messages.Status())["trace"]
    try:
        workers = [spans.read(os.path.join(run.path, file)) for file in run.span_files()]
        exchanges = within(_existing(trainer_spans.read_exchanges, run.exchange_spans), trace)
        reading = within(_existing(trainer_spans.read_reading, run.reading_spans), trace)
    except FileNotFoundError:  # the daemon has just exited
        raise NotRunningError(run.name, run.path) from None
    if not workers and exchanges is None and (reading is None or not reading.spans):
        raise ConfigError(
            "timeline_spans", "daemon {!r}".format(run.name), 0, "it records no spans, or its workers have done "
            "nothing yet. Call `ascpipe trace start`, or start it with ASCPIPE_TIMELINE_SPANS=20000")
    return Recorded(run.name, exchanges, reading, workers)


def _existing(read: Callable[[str], Optional[_Spans]], path: str) -> Optional[_Spans]:
    return read(path) if os.path.exists(path) else None


def within(recorded: Optional[_Spans], trace: Dict[str, Any]) -> Optional[_Spans]:
    """Return the spans that a trainer started while the daemon recorded spans. The span file also contains older spans.

    ``trace`` is the state of recording in ``status``. Return None if the daemon has not recorded.
    """
    if recorded is None or not trace["since_ns"]:
        return None
    return recorded._replace(spans=[span for span in recorded.spans if span.start_ns >= trace["since_ns"] and (
        not trace["until_ns"] or span.start_ns <= trace["until_ns"])])


def events_of_daemons(daemons: List[Recorded]) -> List[Dict[str, Any]]:
    """Return the events of the readers, workers and exchanges of all daemons. The events are ordered so that the trace
    viewer shows the daemons in the order of their ranks.
    """
    rows = []
    for daemon in sorted(daemons, key=lambda one: -1 if one.exchanges is None else one.exchanges.rank):
        of = " of {}".format(daemon.name) if len(daemons) > 1 else ""
        if daemon.exchanges is not None:
            of = " of rank {}".format(daemon.exchanges.rank)
            rows.append(events_of_exchanges(daemon.exchanges))
        if daemon.reading is not None:
            rows += events_of_readers(daemon.reading, of)
        rows += [events_of(worker, of) for worker in daemon.workers]
    for place, events in enumerate(rows, 1):
        events.insert(1, {"ph": "M", "name": "process_sort_index", "pid": events[0]["pid"],
                          "args": {"sort_index": place}})
    return [event for events in rows for event in events]


def events_of(worker: spans.Recorded, of: str = "") -> List[Dict[str, Any]]:
    """Return an event with the worker's name, followed by one event per span. Times are in microseconds since 1970."""
    return [_named(worker.pid, "{} worker {}{}".format(worker.kind, worker.number, of))] + [_event(
        worker.pid, span, ", ".join("{} {}".format(what, last) for what, _, last in span.done),
        {"stream": span.stream, "batches": {what: batches for what, batches, _ in span.done}})
        for span in worker.spans]


def events_of_exchanges(recorded: trainer_spans.RecordedExchanges) -> List[Dict[str, Any]]:
    """Return an event that names a rank in the trace viewer, followed by one event per exchange of the rank."""
    return [_named(recorded.pid, "exchanges of rank {}".format(recorded.rank))] + [_event(
        recorded.pid, span, "{} {}".format(span.kind, span.ticket) if span.ticket else span.kind,
        {"rank": recorded.rank, **{name: getattr(span, name) for name in (
            "kind", "sequence", "stream", "ticket", "bytes_sent", "bytes_received", "waited_us", "last")}})
        for span in recorded.spans]


def events_of_readers(recorded: trainer_spans.RecordedReading, of: str = "") -> List[List[Dict[str, Any]]]:
    """Return a list of events for each reader: an event that names the reader, and the events ``full``, ``read`` and
    ``parse``.

    A reader is a thread of the trainer. Its thread id is the ``pid`` of the events, because the events of exchanges
    use the PID of the trainer. An event without duration is left out.
    """
    readers: Dict[int, List[Dict[str, Any]]] = {}
    for span in recorded.spans:
        if span.thread not in readers:
            readers[span.thread] = [_named(span.thread, "reader {}{}".format(len(readers), of))]
        start_ns = span.start_ns - 1000 * span.full_us
        for what in ("full", "read", "parse"):
            duration_ns = 1000 * getattr(span, what + "_us")
            if duration_ns:
                readers[span.thread].append(_event(
                    span.thread, _Interval(start_ns, duration_ns), "{} {}".format(what, span.batch),
                    {name: getattr(span, name) for name in ("batch", "epoch", "records", "source")}))
            start_ns += duration_ns
    return list(readers.values())


class _Interval(NamedTuple):
    start_ns: int
    duration_ns: int


def last(events: List[Dict[str, Any]], seconds: float) -> List[Dict[str, Any]]:
    """Return the events that end within ``seconds`` before the end of the trace, and all events without times."""
    begin = max((event["ts"] + event["dur"] for event in events if "ts" in event), default=0.0) - 1e6 * seconds
    return [event for event in events if "ts" not in event or event["ts"] + event["dur"] >= begin]


def _named(pid: int, name: str) -> Dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "ascpipe " + name}}


def _event(pid: int, span: Any, name: str, arguments: Dict[str, Any]) -> Dict[str, Any]:
    return {"ph": "X", "cat": "ascpipe", "pid": pid, "tid": 0, "ts": span.start_ns / 1000,
            "dur": span.duration_ns / 1000, "name": name, "args": arguments}


def merged(theirs: List[Dict[str, Any]], ours: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return ``theirs``, and the events of ``ours`` that overlap the time range of ``theirs``. The range is extended by
    0.1 s at both ends.
    """
    timed = [event for event in theirs if "ts" in event]
    if not timed:
        raise click.BadParameter("it has no events with times", param_hint="--merge")
    first = min(event["ts"] for event in timed) - _MARGIN_US
    last = max(event["ts"] + event.get("dur", 0) for event in timed) + _MARGIN_US
    return theirs + [event for event in ours
                     if "ts" not in event or (event["ts"] + event["dur"] >= first and event["ts"] <= last)]


def _events(path: str) -> List[Dict[str, Any]]:
    try:
        with open(path) as file:
            found = json.load(file)["traceEvents"]
    except (ValueError, KeyError, TypeError) as error:
        raise click.BadParameter("{} is not a Chrome trace: {}".format(path, error), param_hint="--merge") from error
    if not isinstance(found, list) or not all(isinstance(event, dict) for event in found):
        raise click.BadParameter("{} is not a Chrome trace: traceEvents is not a list of maps".format(path),
                                 param_hint="--merge")
    return found
