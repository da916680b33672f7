"""``ascpipe timeline``: when workers did what, as a Chrome trace that a trace of TensorFlow's can be merged into."""
import json
import os
from typing import Any, Dict, List, Optional

import click

from ascpipe import names
from ascpipe.control import messages
from ascpipe.control.client import ask
from ascpipe.errors import ConfigError
from ascpipe.shm import spans

_MARGIN_US = 100000.0  # of work before and after a trace that is merged


@click.command("timeline", help="Write when the workers did what, as a Chrome trace.")
@click.option("--name", default=None, help="Name of the daemon; $ASCPIPE_NAME or 'default' if it is not given.")
@click.option("--output", required=True, type=click.Path(dir_okay=False), help="File to write.")
@click.option("--merge", default=None, type=click.Path(exists=True, dir_okay=False),
              help="A trace of TensorFlow's timeline: the work of 0.1 s around it is put into it.")
def command(name: Optional[str], output: str, merge: Optional[str]) -> None:
    """The daemon must keep spans, see the setting ``timeline_spans``; it goes on working."""
    run = names.run_dir(names.daemon_name(name))
    ask(run, messages.Status())  # it is there, and ours
    recorded = [spans.read(os.path.join(run.path, file)) for file in run.span_files()]
    if not recorded:
        raise ConfigError("timeline_spans", "daemon {!r}".format(run.name), 0, "it keeps no spans of its workers, or "
                          "none has worked yet; start it with ASCPIPE_TIMELINE_SPANS=20000")
    events = [event for worker in recorded for event in events_of(worker)]
    if merge is not None:
        events = merged(_events(merge), events)
    with open(output, "w") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)
    click.echo("ascpipe: {} events in {}; open it in chrome://tracing or https://ui.perfetto.dev".format(
        len(events), output))


def events_of(worker: spans.Recorded) -> List[Dict[str, Any]]:
    """One complete event for each span, after one that names the process; times in microseconds since 1970."""
    named = {"ph": "M", "name": "process_name", "pid": worker.pid,
             "args": {"name": "ascpipe {} worker {}".format(worker.kind, worker.number)}}
    return [named] + [{
        "ph": "X", "cat": "ascpipe", "pid": worker.pid, "tid": 0, "ts": span.start_ns / 1000,
        "dur": span.duration_ns / 1000, "name": ", ".join("{} {}".format(what, last) for what, _, last in span.done),
        "args": {"stream": span.stream, "batches": {what: batches for what, batches, _ in span.done}},
    } for span in worker.spans]


def merged(theirs: List[Dict[str, Any]], ours: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """All of a trace, and of our events those near it."""
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
        raise click.BadParameter("{} is no Chrome trace: {}".format(path, error), param_hint="--merge") from error
    if not isinstance(found, list) or not all(isinstance(event, dict) for event in found):
        raise click.BadParameter("{} is no Chrome trace: traceEvents is no list of maps".format(path),
                                 param_hint="--merge")
    return found
