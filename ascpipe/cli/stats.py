"""Command ``ascpipe stats``, which prints the throughput and the bottleneck of a daemon, one line per interval."""
import json
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

import click

from ascpipe.cli.chosen import chosen, name_option
from ascpipe.control import messages
from ascpipe.control.client import ask
from ascpipe.figures.summary import limit, summary
from ascpipe.names import RunDir

LOOKS = 10  #: number of queries per interval, so shares of time have a resolution of 10 %
_LEAST_PAUSE_S = 0.05  # limits the load of the daemon
_HEAD_EVERY = 20  # lines
_COLUMNS = (("steps/s", 9), ("ids/s", 12), ("device hit", 11), ("host hit", 9), ("in/s", 10), ("out/s", 10),
            ("read/s", 9), ("ring", 9), ("step waits", 11))


@click.command("stats", help="Print the throughput of a daemon, one line per interval, until Ctrl-C.",
               short_help="Print throughput, one line per interval.")
@name_option
@click.option("-i", "--interval", type=click.FloatRange(0.1, 86400), default=1.0, show_default=True, metavar="SECONDS",
              help="Interval between lines.")
@click.option("-n", "--count", type=click.IntRange(min=1), default=None, help="Number of lines; unlimited by default.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(name: Optional[str], interval: float, count: Optional[int], as_json: bool) -> None:
    """Query the daemon several times per interval. Only the supervisor handles queries, so training is not delayed."""
    run = chosen(name)
    try:
        for number, looks in enumerate(watched(run, interval)):
            if as_json:
                click.echo(json.dumps(summary(looks)))
            else:
                if number % _HEAD_EVERY == 0:
                    click.echo("".join(title.rjust(width) for title, width in _COLUMNS) + "  bottleneck")
                click.echo(line(summary(looks)))
            if number + 1 == count:
                return
    except KeyboardInterrupt:
        click.echo(err=True)  # newline after the terminal's ^C


def watched(run: RunDir, interval_s: float,
            pause: Optional[Callable[[float], None]] = None) -> Iterator[List[Dict[str, Any]]]:
    """Query a daemon repeatedly. For each interval, yield the daemon's answers from the start to the end of the
    interval, both included.

    Args:
        run: run directory of the daemon.
        interval_s: interval in seconds.
        pause: function that waits for a number of seconds. It defaults to ``time.sleep``.

    Raises:
        NotRunningError, NoAnswerError: the daemon has exited, or does not answer.
    """
    pause_s = max(_LEAST_PAUSE_S, interval_s / LOOKS)
    looks = [ask(run, messages.Status())]
    due = time.monotonic()
    while True:
        due += interval_s
        while True:
            left_s = due - time.monotonic()
            (pause or time.sleep)(max(0.0, min(pause_s, left_s)))
            looks.append(ask(run, messages.Status()))
            if left_s <= pause_s:
                break
        due = max(due, time.monotonic() - interval_s)  # this process may have been suspended
        yield looks
        looks = looks[-1:]


def line(told: Dict[str, Any]) -> str:
    """Format the result of ``summary`` as a line."""
    cells = ["{:.1f}".format(told["steps"]), "{:,.0f}".format(told["ids"]), percent(told["device_hit_rate"]),
             percent(told["host_hit_rate"]), *("{:,.0f}".format(told[name]) for name in (
                 "rows_in", "rows_out", "rows_read")),
             "{}/{}".format(told["depth"], told["frames"]), percent(told["step_waits"])]
    return "".join(cell.rjust(width) for cell, (_, width) in zip(cells, _COLUMNS)) + "  " + limit(told)


def percent(rate: Optional[float]) -> str:
    """Format a rate as ``"95.4 %"``. None is a dash."""
    return "-" if rate is None else "{:.1f} %".format(100.0 * rate)
