"""Command ``ascpipe logs``, which prints or follows the log of a daemon or of a worker."""
import contextlib
import datetime
import json
import os
import time
from typing import IO, Iterator, Optional

import click

from ascpipe import names
from ascpipe.cli import printing
from ascpipe.cli.chosen import chosen, is_named, name_option
from ascpipe.control.client import check_run_directory
from ascpipe.control.lock import is_held, is_listening
from ascpipe.errors import NotRunningError
from ascpipe.logs import one_line

_LOOK_S = 0.2  # seconds between polls of a followed log
_DAEMON = "daemon"
_ENDING = ".log"


@click.command("logs", help="Print the log of a daemon or worker, even after its exit.")
@name_option
@click.option("--worker", default=None, metavar="WORKER",
              help="Print the log of this worker, such as key-0, table-0, disk-0 or template-0.")
@click.option("-n", "--lines", type=click.IntRange(min=0), default=None,
              help="Number of lines from the end of the log. Default: all lines.")
@click.option("-f", "--follow", is_flag=True, help="Print new lines until the daemon exits or Ctrl-C.")
@click.option("--failed", is_flag=True, help="List the logs of private daemons whose session failed.")
@click.option("--json", "as_json", is_flag=True, help="With --failed: print JSON.")
def command(name: Optional[str], worker: Optional[str], lines: Optional[int], follow: bool, failed: bool,
            as_json: bool) -> None:
    """Print a log, and escape non-printable characters."""
    if as_json and not failed:
        raise click.UsageError("--json is for --failed")
    if failed:
        _list_failed(as_json)
        return
    folder = folder_of(name)
    path = _log_in(folder, worker or _DAEMON)
    with open(path, encoding="utf-8", errors="replace") as file, contextlib.suppress(KeyboardInterrupt):
        text = file.readlines()
        for line in text if lines is None else text[len(text) - min(lines, len(text)):]:
            _print(line)
        if follow:
            for line in added(file, names.RunDir(os.path.basename(folder))):
                _print(line)


def folder_of(name: Optional[str]) -> str:
    """Return the folder with the logs of a daemon.

    If the run directory is gone, return the folder in which the logs of a failed private daemon are kept.

    Raises:
        NotRunningError: there are no logs, or no daemon is named and no daemon is running.
    """
    from ascpipe.daemon import kept_logs

    if not is_named(name):
        return chosen(name).path
    run = names.run_dir(names.daemon_name(name))
    with contextlib.suppress(NotRunningError):
        check_run_directory(run)
        return run.path
    if os.path.isdir(kept_logs.folder_of(run.name)):
        return kept_logs.folder_of(run.name)
    raise NotRunningError(run.name, run.path)


def added(file: IO[str], run: names.RunDir) -> Iterator[str]:
    """Yield the lines that are appended to an open log, until the daemon exits."""
    part = ""
    while True:
        lives = is_held(run) or is_listening(run.lifeline)  # checked first, so that the last read gets all lines
        if os.fstat(file.fileno()).st_size < file.tell():  # a restarted worker truncates its log
            file.seek(0)
        for piece in file:
            part += piece
            if part.endswith("\n"):
                yield part
                part = ""
        if not lives:
            if part:
                yield part
            return
        time.sleep(_LOOK_S)


def _log_in(folder: str, name: str) -> str:
    there = sorted(found[:-len(_ENDING)] for found in os.listdir(folder) if found.endswith(_ENDING))
    if name not in there:
        raise click.BadParameter("{} has no log of {!r}; it has logs of {}".format(
            folder, name, ", ".join(there) or "nothing"), param_hint="--worker")
    return os.path.join(folder, name + _ENDING)


def _print(line: str) -> None:
    click.echo(one_line(line.rstrip("\n")))


def _list_failed(as_json: bool) -> None:
    from ascpipe.daemon import kept_logs
    from ascpipe.daemon.run_directory import sweep_dead_runs

    if names.known_names():
        sweep_dead_runs("")  # this keeps the logs of killed daemons
    found = kept_logs.kept()
    if as_json:
        click.echo(json.dumps([one._asdict() for one in found], indent=2))
    elif not found:
        printing.show(["no session of a private daemon has failed ({})".format(kept_logs.base_dir())], [])
    else:
        lines = ["{}  {}  {}".format(_time(one.ended), one.name, one.cause or "it was killed") for one in found]
        printing.show([*lines, "in {}; ascpipe logs --name NAME prints one".format(kept_logs.base_dir())], [])


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
