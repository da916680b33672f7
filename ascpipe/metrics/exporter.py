"""Process that exports the metrics of a daemon over HTTP and to a file, and serves the dashboard.

The process queries ``status`` like any client::

    python -m ascpipe.metrics.exporter --name NAME [--listener FD] [--file PATH] [--dashboard FD]

The process exits at the end of its standard input, which the daemon or ``ascpipe dashboard`` keeps open. It then
removes the file, since old metrics of a dead daemon would look like metrics of an idle daemon. With ``--dashboard``,
the first line of its standard input is the token of the page.
"""
import contextlib
import fcntl
import logging
import os
import select
import signal
import socket
import sys
import time
from typing import BinaryIO, Callable, List, Optional, Sequence, Union

import click

from ascpipe import names
from ascpipe.control import messages, saves
from ascpipe.control.client import ask
from ascpipe.control.lock import is_locked
from ascpipe.control.process_title import set_process_title
from ascpipe.control.web import Server
from ascpipe.dashboard.board import Board
from ascpipe.errors import AscpipeError
from ascpipe.logs import open_log
from ascpipe.metrics.scrapes import scrapes
from ascpipe.names import RunDir

FILE_S = 15.0  #: write interval of the file
FRESH_S = 0.5  #: cache time of an answer, so that frequent scrapes do not cause more queries
ASK_S = 2.0  #: timeout for an answer of the daemon
_MODE = 0o644  # readable for the collector, which is another user; the file has only table names and metrics
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_STDIN = 0

_log = logging.getLogger("ascpipe.metrics")


class Answers:
    """Source of a daemon's metrics in Prometheus's text format. The source queries the daemon.

    Args:
        run: run directory of the daemon.
        clock: function that returns seconds.
    """

    def __init__(self, run: RunDir, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._text = b""
        self._asked_at = -FRESH_S
        self._silent = ""

    def text(self) -> bytes:
        """Return the metrics. The values are at most ``FRESH_S`` seconds old. If the daemon does not answer, return
        only ``ascpipe_up``.
        """
        if self._clock() - self._asked_at >= FRESH_S:
            from ascpipe.metrics import exposition  # the dashboard does not need its package

            silent = ""
            status = None
            try:
                status = {**ask(self._run, messages.Status(), ASK_S), "last_save": saves.newest(self._run)}
            except AscpipeError as error:
                silent = error.sentence()
            if silent and not self._silent:
                _log.warning("no figures: %s", silent)
            self._silent = silent
            self._text = exposition.text(self._run.name, status)
            self._asked_at = self._clock()
        return self._text


class File:
    """File for Prometheus's textfile collector. It is replaced atomically.

    The process locks the file, so that no other daemon replaces it.

    Args:
        path: absolute path of the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._beside = path + ".tmp"
        self._reason = ""
        self._written: Optional[BinaryIO] = None  # the current file, locked

    def write(self, text: bytes) -> None:
        """Replace the content of the file. If the file cannot be written, the old file is kept. A repeated error is
        logged once.
        """
        reason = ""
        try:
            if not self._is_ours() and is_locked(self._path):
                raise BlockingIOError
            self._replace(text)
        except BlockingIOError:
            reason = "{}: another daemon writes this file".format(self._path)
        except OSError as error:
            reason = "{}: {}".format(self._path, error.strerror or error)
            with contextlib.suppress(OSError):
                os.unlink(self._beside)
        if reason and reason != self._reason:
            _log.warning("metrics are not written to %s", reason)
        self._reason = reason

    def remove(self) -> None:
        """Remove the file if this process wrote it. Further calls do nothing."""
        with contextlib.suppress(OSError):
            if self._is_ours():
                os.unlink(self._path)
        self._forget()

    def _replace(self, text: bytes) -> None:
        with contextlib.ExitStack() as opened:
            file = opened.enter_context(open(os.open(self._beside, _FLAGS, _MODE), "wb"))
            _lock(file.fileno())  # the rename keeps the lock
            file.truncate(0)
            os.fchmod(file.fileno(), _MODE)  # regardless of the umask
            file.write(text)
            file.flush()
            os.replace(self._beside, self._path)
            opened.pop_all()
        self._forget()
        self._written = file

    def _is_ours(self) -> bool:
        if self._written is None:
            return False
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.lstat(self._path), os.fstat(self._written.fileno()))
        return False

    def _forget(self) -> None:
        if self._written is not None:
            self._written.close()
            self._written = None


def _lock(fd: int) -> None:
    """Lock a file if the file system supports locks. Raise ``BlockingIOError`` if another process holds the lock."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        _log.debug("no lock: %s", error)


def serve(answers: Answers, file: Optional[File], servers: Sequence[Union[Server, Board]],
          parent: int = _STDIN) -> None:
    """Export metrics and serve pages until the daemon closes the pipe ``parent``."""
    write_at = time.monotonic()
    while True:
        now = time.monotonic()
        if file is not None and now >= write_at:
            file.write(answers.text())
            write_at = now + FILE_S
        waits = [write_at - time.monotonic()] if file is not None else []
        poll = select.poll()
        poll.register(parent, select.POLLIN)
        for server in servers:
            waits += [wait for wait in [server.wait_s()] if wait is not None]
            for fd, events in server.events():
                poll.register(fd, events)
        ready = dict(poll.poll(1 + int(1000 * max(0.0, min(waits))) if waits else None))
        if parent in ready:
            return
        for server in servers:
            server.serve(ready)


@click.command("ascpipe-metrics")
@click.option("--name", required=True, help="Name of the daemon.")
@click.option("--listener", type=int, default=-1, help="Descriptor of a socket that listens.")
@click.option("--file", "path", default="", help="File to write.")
@click.option("--dashboard", type=int, default=-1, help="Descriptor of a socket that listens, for the dashboard.")
def main(name: str, listener: int, path: str, dashboard: int) -> None:
    """Export the metrics of a daemon until the daemon exits."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # only the daemon stops this process
        signal.signal(number, signal.SIG_IGN)
    open_log("metrics")
    set_process_title("metrics of " + name)
    run = names.run_dir(name)
    answers = Answers(run)
    file = File(path) if path else None
    with contextlib.ExitStack() as ends:
        if file is not None:
            ends.callback(file.remove)
        servers: List[Union[Server, Board]] = []
        if listener >= 0:
            from ascpipe.metrics.exposition import CONTENT_TYPE

            servers.append(scrapes(socket.socket(fileno=listener), answers.text, CONTENT_TYPE))
        if dashboard >= 0:
            servers.append(Board(run, socket.socket(fileno=dashboard), _line_of(_STDIN)))
        for server in servers:
            ends.callback(server.close)
        serve(answers, file, servers)
    sys.exit(0)


def _line_of(pipe: int) -> str:
    """Read a line from a pipe, without reading the bytes after the line. Return an empty line at the end of the file.
    """
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(pipe, 1)
        if not byte:
            break
        line += byte
    return line.decode().strip()


if __name__ == "__main__":
    main()
