"""Command ``ascpipe top``. It shows a live view of a daemon, refreshed every second."""
import contextlib
import select
import sys
import termios
import tty
from typing import Any, Dict, Iterator, List, Optional

import click

from ascpipe.cli import printing
from ascpipe.cli.chosen import chosen, name_option
from ascpipe.cli.rates import busy
from ascpipe.cli.stats import limit, percent, summary, watched
from ascpipe.cli.status import headlines, state_of

_TABLE_COLUMNS = ["table", "batches/s", "ids/s", "device hit", "host hit", "in/s", "out/s", "read/s", "written/s"]

_READING_COLUMNS = ["readers", "records/s", "MB/s", "skipped/s", "busy", "of it reads", "full", "program waits"]


@click.command("top", help="Show a live view of a daemon; q or Ctrl-C quits.")
@name_option
def command(name: Optional[str]) -> None:
    """Show the view on a terminal. For files and pipes, use ``ascpipe stats``."""
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise click.UsageError("top needs a terminal. Use `ascpipe stats` for a file or a pipe")
    from rich.live import Live

    run = chosen(name)
    with contextlib.suppress(KeyboardInterrupt), _single_keys(), Live(screen=True, auto_refresh=False) as live:
        for looks in watched(run, 1.0):
            live.update(_drawn({**looks[-1], "logs": run.path}, looks), refresh=True)
            if _is_left():
                return


def screen(status: Dict[str, Any], looks: List[Dict[str, Any]]) -> List[Any]:
    """Return (title, column names, rows of cells) for each table to draw. Empty tables are omitted."""
    told = summary(looks)
    awake = busy(looks)
    waits = {wait["who"]: wait["waits_for"] for wait in status["waits"]}
    processes = [("{} worker {}".format(worker["kind"], worker["index"]), str(worker["pid"] or "-"),
                  state_of(worker, status["state"])) for worker in status["workers"]]
    if status["trainer"] is not None:
        processes.insert(0, ("trainer", str(status["trainer"]["pid"]), ""))
    found = [
        ("", ["steps/s", "ids/s", "step waits", "bottleneck"], [
            ["{:.1f}".format(told["steps"]), "{:,.0f}".format(told["ids"]), percent(told["step_waits"]),
             limit(told)]]),
        ("tables", _TABLE_COLUMNS, [
            [table["table"], "{:.1f}".format(table["batches"]), "{:,.0f}".format(table["ids"]),
             percent(table["device_hit_rate"]), percent(table["host_hit_rate"]),
             *("{:,.0f}".format(table[name]) for name in ("rows_in", "rows_out", "rows_read", "rows_written"))]
            for table in told["tables"]]),
        ("rings", ["stream", "steps/s", "depth", "of", "parked"], [
            [str(ring["stream"]), "{:.1f}".format(ring["steps"]), str(ring["depth"]), str(ring["frames"]),
             str(ring["parked"])] for ring in told["rings"]]),
        ("asc.data.read", _READING_COLUMNS, [] if told["reading"] is None else [_reading_cells(told["reading"])]),
        ("processes", ["process", "pid", "state", "awake", "waits for"], [
            [name, pid, state, percent(awake.get(name)), waits.get(name, "-")] for name, pid, state in processes]),
    ]
    return [part for part in found if part[2]]


def _reading_cells(rates: Dict[str, float]) -> List[str]:
    return [str(rates["readers"]), "{:,.0f}".format(rates["records"]), "{:.1f}".format(rates["bytes"] / 1e6),
            "{:,.0f}".format(rates["skipped"]),
            *(percent(rates[name]) for name in ("busy", "reading", "full", "waited"))]


def _drawn(status: Dict[str, Any], looks: List[Dict[str, Any]]) -> Any:
    from rich.console import Group
    from rich.text import Text

    lines = [Text(printing.one_line(text)) for text in headlines(status)]
    return Group(*lines, *(printing.rich_table(*part) for part in screen(status, looks)), Text("q ends"))


@contextlib.contextmanager
def _single_keys() -> Iterator[None]:
    """Context manager in whose block the terminal delivers single key presses without echo."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _is_left() -> bool:
    """Return whether q was pressed or the input has ended."""
    while select.select([sys.stdin], [], [], 0)[0]:
        if sys.stdin.read(1) in ("q", "Q", ""):
            return True
    return False
