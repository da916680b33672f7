"""Class ``Exporter``, with which the daemon starts and restarts the metrics process (``ascpipe.metrics.exporter``).

The process also serves the dashboard. The daemon owns the listening sockets. So a port in use is detected before the
daemon is ready, and scrapes wait in the kernel while the process restarts.
"""
import contextlib
import importlib.util
import logging
import os
import secrets
import socket
import subprocess
import sys
from typing import List, NamedTuple, Optional

from ascpipe.config import Settings
from ascpipe.control.child import Child, reap
from ascpipe.control.launch import child_environment
from ascpipe.control.lock import is_locked
from ascpipe.errors import DashboardError, MetricsError, MetricsMissingError
from ascpipe.names import RunDir

MODULE = "ascpipe.metrics.exporter"
_PACKAGE = "prometheus_client"
_LOG = "metrics-0"
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
_BACKLOG = 32
_RENEWAL_S = 10.0  # minimum time between two starts
_END_S = 3.0  # maximum wait for the exit of the process, which may wait 2 s for a reply of the daemon

_log = logging.getLogger("ascpipe.daemon")


class Page(NamedTuple):
    """Listening socket of a dashboard, and the token in the dashboard's address."""

    listener: socket.socket
    token: str

    @property
    def address(self) -> str:
        """Return the address of the page, with the token."""
        return "http://127.0.0.1:{}/?token={}".format(self.listener.getsockname()[1], self.token)


class Exporter:
    """Handle of the metrics process. If ``settings`` enable metrics or the dashboard, ``look`` starts the process, and
    restarts it after each exit.

    Raises:
        MetricsMissingError: the required package is not installed.
        MetricsError: the port is not available, or the file cannot be written.
        DashboardError: the port of the dashboard is not available.
    """

    def __init__(self, run: RunDir, settings: Settings) -> None:
        self._run = run
        self._file = settings.metrics_file
        self._listener: Optional[socket.socket] = None
        self._page: Optional[Page] = None
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._begin_at = 0.0
        asked = "metrics_port" if settings.metrics_port else "metrics_file" if self._file else ""
        if asked and importlib.util.find_spec(_PACKAGE) is None:
            raise MetricsMissingError(asked, getattr(settings, asked), _PACKAGE)
        if self._file:
            require_writable(self._file)
        if settings.metrics_port:
            self._listener = _listening(settings.metrics_address, settings.metrics_port)
        if settings.dashboard:
            try:
                self._page = open_page(settings.dashboard_port)
                _write_address(run, self._page.address)
            except BaseException:
                self._close_listeners()
                raise

    @property
    def pid(self) -> int:
        """Return the PID of the metrics process, or 0 if the process does not run."""
        return 0 if self._process is None else self._process.pid

    def look(self, now: float) -> None:
        """Start the metrics process if the process is needed but not running. ``now`` is the monotonic time in seconds.
        """
        if self._process is not None and self._process.poll() is not None:
            _log.warning("the process that exports metrics (pid %d) exited with %d and is restarted", self.pid,
                         self._process.returncode)
            self._close_stdin()
        if self._process is None and now >= self._begin_at and (self._listener or self._page or self._file):
            self._begin_at = now + _RENEWAL_S
            try:
                self._begin()
            except OSError as error:  # too many processes or files
                _log.warning("metrics are not exported: %s", error)

    def close(self) -> None:
        """End the metrics process and close the listening socket. The process removes the metrics file when it ends."""
        if self._process is not None:
            process = self._process
            self._close_stdin()
            reap(process, _END_S)
        self._close_listeners()

    def _begin(self) -> None:
        log = os.open(self._run.worker_log(_LOG), _LOG_FLAGS, 0o600)
        try:
            self._process = started(self._run.name, log, listener=self._listener, file=self._file, page=self._page)
        finally:
            os.close(log)

    def _close_stdin(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()  # the process exits at the end of file
        self._process = None

    def _close_listeners(self) -> None:
        for listener in (self._listener, None if self._page is None else self._page.listener):
            if listener is not None:
                listener.close()


def started(name: str, log: int, *, listener: Optional[socket.socket] = None, file: str = "",
            page: Optional[Page] = None) -> "subprocess.Popen[bytes]":
    """Start the metrics process. The process exits when its standard input is closed.

    Args:
        name: name of the daemon.
        log: descriptor for its output.
        listener: listening socket for scrapes, or None.
        file: path of the metrics file, or an empty string.
        page: dashboard to serve, or None.

    Raises:
        OSError: no more processes or files are available.
    """
    options: List[str] = []
    fds: List[int] = []
    for option, sock in (("--listener", listener), ("--dashboard", None if page is None else page.listener)):
        if sock is not None:
            options.append("{}={}".format(option, sock.fileno()))
            fds.append(sock.fileno())
    process = Child([sys.executable, "-m", MODULE, "--name", name, "--file", file, *options], stdin=subprocess.PIPE,
                    stdout=log, stderr=log, pass_fds=fds, start_new_session=True, cwd="/", env=child_environment())
    if page is not None and process.stdin is not None:  # the arguments of a process are visible to other users
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(page.token.encode() + b"\n")
            process.stdin.flush()
    return process


def open_page(port: int) -> Page:
    """Listen on a port of 127.0.0.1 for a dashboard, and create a random token. If ``port`` is 0, any free port is
    used.

    Raises:
        DashboardError: the port is not available.
    """
    try:
        return Page(_opened("127.0.0.1", port), secrets.token_urlsafe(24))
    except OSError as error:
        raise DashboardError(port, error.strerror or error) from error


def _write_address(run: RunDir, address: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(run.dashboard)
    with open(os.open(run.dashboard, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(address + "\n")


def require_writable(path: str) -> None:
    """Raise ``MetricsError`` if a metrics file cannot be written or belongs to another daemon."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise MetricsError("metrics_file", path, "{} is no directory".format(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise MetricsError("metrics_file", path, "files cannot be created in {}".format(folder))
    if os.path.isdir(path):
        raise MetricsError("metrics_file", path, "it is a directory")
    with contextlib.suppress(OSError):  # the metrics process reports why a file is unreadable
        if is_locked(path):
            raise MetricsError("metrics_file", path, "another daemon writes it")


def _listening(address: str, port: int) -> socket.socket:
    try:
        return _opened(address, port)
    except OSError as error:
        raise MetricsError("metrics_port", port, "port {} of {} cannot be opened: {}".format(
            port, address, error.strerror or error)) from error


def _opened(address: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ignore an earlier daemon's TIME_WAIT connections
        sock.bind((address, port))
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
