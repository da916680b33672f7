"""Command ``ascpipe top``, which shows a live view of a daemon, refreshed every second."""
import contextlib
import json
import os
import select
import shutil
import sys
import termios
import time
import tty
from typing import Any, Dict, Iterator, List, Optional

import click

from ascpipe.cli.chosen import chosen, name_option
from ascpipe.cli.keys import names_in
from ascpipe.cli.stats import watched
from ascpipe.cli.status import with_files
from ascpipe.cli.top_screen import SORTS, View, drawn, pressed, printed
from ascpipe.figures.summary import summary
from ascpipe.names import RunDir


@click.command("top", help="Show a live view of a daemon; q or Ctrl-C quits.")
@name_option
@click.option("--once", is_flag=True, help="Print all figures of one second.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per second, like `ascpipe stats --json`.")
@click.option("--sort", type=click.Choice(SORTS), default=SORTS[0], show_default=True, help="Order of the tables.")
@click.option("--filter", "query", default="", metavar="TEXT", help="Show only tables whose names contain TEXT.")
def command(name: Optional[str], once: bool, as_json: bool, sort: str, query: str) -> None:
    """Show the live view on a terminal, or print the current statistics once."""
    view = View(sort=sort, query=query)
    if not (once or as_json or (sys.stdout.isatty() and sys.stdin.isatty())):
        raise click.UsageError("top needs a terminal. Use `ascpipe top --once` or `ascpipe stats` for a file or a pipe")
    run = chosen(name)
    with contextlib.suppress(KeyboardInterrupt):
        if once or as_json:
            for looks in watched(run, 1.0):
                _print(run, looks, view, as_json=as_json)
                if once:
                    return
        else:
            _Live(run, view).run()


def _print(run: RunDir, looks: List[Dict[str, Any]], view: View, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(summary(looks)))
    else:
        width = shutil.get_terminal_size().columns  # 80 for a pipe, unless COLUMNS is set
        click.echo("\n".join(printed(with_files(run, looks[-1]), looks, view, width)))


class _LeftError(Exception):
    """The user has pressed the key that ends the command."""


class _Live:
    """Terminal screen that shows the state of a daemon until the user presses q."""

    def __init__(self, run: RunDir, view: View) -> None:
        self._run = run
        self._view = view
        self._looks: List[Dict[str, Any]] = []
        self._live: Any = None

    def run(self) -> None:
        from rich.live import Live

        with _single_keys(), Live(screen=True, auto_refresh=False) as self._live, contextlib.suppress(_LeftError):
            for looks in watched(self._run, 1.0, self._wait):
                self._looks = looks
                self._draw()

    def _draw(self) -> None:
        from rich.console import Group
        from rich.text import Text

        if self._looks:
            width, height = self._live.console.size
            status = with_files(self._run, self._looks[-1])
            lines, self._view = drawn(status, self._looks, self._view, width, height)
            self._live.update(Group(*(Text(text, style, no_wrap=True) for text, style in lines)), refresh=True)

    def _wait(self, seconds: float) -> None:
        """Wait, and update the screen immediately if the user presses a key. Raise ``_LeftError`` if the user presses
        q.
        """
        end = time.monotonic() + seconds
        while True:
            left_s = end - time.monotonic()
            if not select.select([sys.stdin], [], [], max(0.0, left_s))[0]:
                return
            page = max(1, self._live.console.size[1] // 2)
            for key in names_in(os.read(sys.stdin.fileno(), 1024)):
                view = pressed(self._view, key, page)
                if view is None:
                    raise _LeftError
                self._view = view
            self._draw()


@contextlib.contextmanager
def _single_keys() -> Iterator[None]:
    """Context manager that makes the terminal deliver single key presses without echo."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
