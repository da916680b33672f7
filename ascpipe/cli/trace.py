"""Commands ``ascpipe trace start`` and ``stop``, which start and stop the recording of spans for ``ascpipe timeline``.
"""
import json
import os
import time
from typing import Any, Callable, Dict, List, Tuple

import click

from ascpipe import names
from ascpipe.cli import near_verbs
from ascpipe.cli.chosen import chosen
from ascpipe.control import messages
from ascpipe.control.client import ask, running_daemons
from ascpipe.errors import NotRunningError, WrongStateError
from ascpipe.logs import counted
from ascpipe.names import RunDir

SPANS = 20_000  #: default number of spans to keep
_BEGINS_S = 3.0  # maximum seconds until the workers of a session start to record
_LOOK_S = 0.05


@click.group("trace", cls=near_verbs.Group,
             help="Record the activity of workers for `ascpipe timeline`.")
def command() -> None:
    """Group of the commands start and stop."""


def _daemon_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
            click.option("--all", "of_all", is_flag=True, help="Use all daemons of this user."),
            click.option("--name", "given", multiple=True,
                         help="Name of a daemon; repeatable. Default: the same daemon as for `ascpipe status`.")):
        function = option(function)
    return function


@command.command("start", help="Start recording and discard earlier records.")
@click.option("--spans", type=click.IntRange(1, messages.MAX_SPANS), default=SPANS, show_default=True,
              help="Number of spans per worker; newer spans overwrite older spans.")
@_daemon_options
def start(spans: int, given: Tuple[str, ...], of_all: bool, as_json: bool) -> None:
    """Start recording spans. Workers start to record between two batches, and training continues."""
    answers = [(run, ask(run, messages.Trace(spans))) for run in _runs(given, of_all=of_all)]
    silent = {run.name: _wait_for_workers(run) for run, _ in answers}
    _tell(answers, "records up to {} spans per worker; `ascpipe timeline --output FILE` writes them".format(spans),
          as_json=as_json)
    for name, workers in silent.items():
        if workers:
            raise WrongStateError(
                "record all of daemon {!r}".format(name), "recording",
                "no spans within {:g} s from {}. `ascpipe status` shows whether it is stopped; its log shows whether "
                "there is no memory for them".format(_BEGINS_S, ", ".join(workers)))


@command.command("stop", help="Stop recording; records are kept until the next start.")
@_daemon_options
def stop(given: Tuple[str, ...], of_all: bool, as_json: bool) -> None:
    """Stop recording spans."""
    answers = [(run, ask(run, messages.Trace(0))) for run in _runs(given, of_all=of_all)]
    _tell(answers, "stopped recording; `ascpipe timeline --output FILE` writes the records", as_json=as_json)


def _runs(given: Tuple[str, ...], *, of_all: bool) -> List[RunDir]:
    if given and of_all:
        raise click.UsageError("--all selects all daemons: omit --name")
    if not of_all:
        return [chosen(name) for name in dict.fromkeys(given)] or [chosen(None)]
    running = running_daemons()
    if not running:
        raise NotRunningError(names.daemon_name(), names.base_dir())
    return [names.run_dir(name) for name in running]


def _tell(answers: List[Tuple[RunDir, Dict[str, Any]]], text: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([{"name": run.name, **answer} for run, answer in answers], indent=2))
        return
    for run, _ in answers:
        click.echo("ascpipe: daemon {!r} {}".format(run.name, text))
    if len(answers) > 1:
        click.echo("ascpipe: {} in all".format(counted(len(answers), "daemon")))


def _wait_for_workers(run: RunDir) -> List[str]:
    """Return the workers that have not created a span file within ``_BEGINS_S``."""
    end = time.monotonic() + _BEGINS_S
    while True:
        workers = ["{kind}-{index}".format(**worker) for worker in ask(run, messages.Status())["workers"]
                   if worker["attached"] and worker["kind"] != "disk"]
        late = [worker for worker in workers if not os.path.exists(run.worker_spans(worker))]
        if not late or time.monotonic() > end:
            return late
        time.sleep(_LOOK_S)
