"""Trainer's connection to its daemon. The trainer finds or starts a daemon, registers with the daemon, and receives the
segments.

Each process detects the death of the other process by the lifeline's end of file (POLLHUP).
"""
import contextlib
import os
import secrets
import socket
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ascpipe import __version__, errors, names
from ascpipe.config import METRICS_SUFFIX, Settings, load_settings
from ascpipe.control import child, fdsocket, launch, messages
from ascpipe.control.client import TIMEOUT_S, ask, check_run_directory, check_running
from ascpipe.control.lock import holder_of, is_held
from ascpipe.eviction_log import path_of_rank
from ascpipe.names import RunDir
from ascpipe.ranks import LOCAL_RANK, daemon_of_this_rank, get_local_rank_size, get_rank_id, get_rank_size, launched

_START_TIMEOUT_S = 120.0  # allocating large segments takes time
_LIFELINE_TIMEOUT_S = 10.0
_UNRESPONSIVE_TIMEOUT_S = 1.0  # timeout for a daemon that did not answer the previous request

#: descriptor of a segment, and its size in bytes
Piece = Tuple[int, int]


class Segments(NamedTuple):
    """Received segments. ``close_segments`` or ``close`` closes the descriptors of the segments.

    Attributes:
        session: the session segment.
        streams: rings by stream number.
        tables: segments by table number.
        exchange_spans: file that records exchanges among ranks. The descriptor is -1 if exchanges are not recorded.
        reading_spans: file that records the batches of ``asc.data.read``, or descriptor -1.
    """

    session: Piece
    streams: Dict[int, Piece]
    tables: Dict[int, Piece]
    exchange_spans: Piece
    reading_spans: Piece


class TrainerLink:
    """Connection of a registered trainer to its daemon, created by ``connect``.

    Attributes:
        run: run number from 1 to 32767. It is the upper 16 bits of every ticket.
        daemon_pid: PID of the supervisor.
        lifeline_fd: descriptor to poll for POLLHUP. The link owns the descriptor.
        name: name of the daemon.
        private: whether the daemon exits together with this process.
        settings: settings of this process. The settings of a named daemon may differ.
    """

    def __init__(self, run_dir: RunDir, sock: socket.socket, token: bytes, answer: Dict[str, Any],
                 settings: Settings, process: "Optional[subprocess.Popen[bytes]]") -> None:
        self._run_dir = run_dir
        self._sock = sock
        self._token = token
        self._process = process
        self._fds: List[int] = []
        self._closed = self._started = self._is_silent = False
        self._owner = os.getpid()
        self.run: int = answer["run"]
        self.daemon_pid: int = answer["pid"]
        self.name = run_dir.name
        self.private = process is not None
        self.settings = settings
        self.lifeline_fd = sock.fileno()

    def start(self, streams: Sequence[messages.Stream], tables: Sequence[messages.Table]) -> Segments:
        """Ask the daemon to create the segments and attach the workers. The method may be called once per link.

        Raises:
            OutOfSharedMemoryError: there is too little memory. The link remains usable.
            WorkerError: the workers cannot run.
            MessageError: an argument is out of range.
            SupervisorGoneError: the daemon died.
            WrongStateError: the link was started before, or is closed.
        """
        self._require_ours("start")
        if self._closed or self._started:
            raise errors.WrongStateError("start", "closed" if self._closed else "serving", "a link starts once")
        sizes, fds = self._ask_for_segments(
            messages.Start(tuple(streams), tuple(tables), self._token), 1 + len(streams) + len(tables))
        self._started = True
        return _pieces(sizes, fds)

    def add_stream(self, stream: messages.Stream) -> Piece:
        """Add a stream to the session.

        Returns:
            The ring. ``close_segments`` or ``close`` closes the descriptor.

        Raises:
            OutOfSharedMemoryError: there is too little memory. The session continues without the stream.
            AscpipeError: one of the errors of ``start``, or the error with which the session failed.
        """
        return self._add("add_stream", messages.AddStream(stream, self._token))

    def add_table(self, table: messages.Table) -> Piece:
        """Add a table to the session, or replace a table that has not been trained.

        The return value and the errors are as in ``add_stream``.
        """
        return self._add("add_table", messages.AddTable(table, self._token))

    def _add(self, verb: str, body: messages.Body) -> Piece:
        self._require_ours(verb)
        if self._closed or not self._started:
            raise errors.WrongStateError(verb, "closed" if self._closed else "registered",
                                  "streams and tables can be added only after the session has started")
        sizes, fds = self._ask_for_segments(body, 1)
        return fds[0], int(sizes["bytes"])

    def _require_ours(self, verb: str) -> None:
        if os.getpid() != self._owner:
            raise errors.WrongStateError(verb, "serving", "this is a forked child of the trainer")

    def _ask_for_segments(self, body: messages.Body, wanted: int) -> Tuple[Dict[str, Any], List[int]]:
        try:
            sizes = self._ask(body, _START_TIMEOUT_S)
            message, fds = fdsocket.receive(self._sock, _LIFELINE_TIMEOUT_S)
        except (errors.NotRunningError, errors.MessageError) as error:
            if isinstance(error, errors.NotRunningError) or fdsocket.is_closed(self._sock):
                raise errors.SupervisorGoneError(self.daemon_pid, self._run_dir.path) from error
            raise
        self._fds.extend(fds)
        wanted += sum(size > 0 for size in sizes.get("spans_bytes", ()))
        if message.get("verb") != "segments" or len(fds) != wanted:
            raise errors.MessageError("the daemon sent {} descriptors; expected {}".format(len(fds), wanted))
        return sizes, fds

    def close_segments(self) -> None:
        """Close the descriptors of the segments. Call this method after the segments are mapped.

        A forked child inherits descriptors but not mappings. With open descriptors, a surviving child would
        keep the memory.
        """
        for fd in self._fds:
            os.close(fd)
        self._fds = []

    def status(self) -> Dict[str, Any]:
        """Return the content of ``ascpipe status --json``, without ``logs``."""
        return self._ask(messages.Status())

    def _ask(self, body: messages.Body, timeout_s: float = TIMEOUT_S) -> Dict[str, Any]:
        try:
            answer = ask(self._run_dir, body, timeout_s)
        except errors.NoAnswerError:
            self._is_silent = True
            raise
        self._is_silent = False
        return answer

    def close(self) -> None:
        """End the session and release all resources. If the daemon is private, the method waits until the daemon has
        exited.

        In a forked child, the method only closes the child's copies, because the parent owns the session.
        """
        if self._closed:
            return
        self._closed = True
        is_ours = os.getpid() == self._owner
        with contextlib.suppress(errors.AscpipeError):  # the daemon has exited, or will detect the closed lifeline
            if is_ours and not fdsocket.is_closed(self._sock):
                ask(self._run_dir, messages.Bye(self._token), _UNRESPONSIVE_TIMEOUT_S if self._is_silent else TIMEOUT_S)
        self._sock.close()
        self.lifeline_fd = -1
        self.close_segments()
        if is_ours and self._process is not None:
            child.reap(self._process)


class Begun:
    """Private daemon that starts while the trainer does other work. ``begin`` creates this object, and ``connect`` uses
    the daemon.

    Args:
        settings: settings of the daemon.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._launching: Optional[launch.Launching] = _launch(settings)

    def take(self, settings: Settings) -> Optional[launch.Launched]:
        """Wait until the daemon is ready, and return the daemon. Raise the errors of ``Launching.wait``.

        Return None if the daemon has exited, or if a new daemon would have other settings.
        """
        launching = self._launching
        if launching is None or not launching.is_current() or settings != self._settings:
            return None
        self._launching = None
        return launching.wait()

    def end(self) -> None:
        """End the daemon unless ``take`` has returned the daemon. Further calls do nothing."""
        launching, self._launching = self._launching, None
        if launching is not None:
            launching.end()


def require(daemon: str) -> None:
    """Raise NotRunningError if no daemon of this name runs. Raise RunDirError if other users can access the run
    directory.
    """
    check_running(names.run_dir(daemon_of_this_rank(daemon)))


def begin(daemon: Optional[str] = None) -> Optional[Begun]:
    """Start the private daemon that ``connect`` will need, and return without waiting until the daemon is ready.

    Return None if no private daemon is needed or none can be started. The call is optional. ``connect`` starts another
    daemon if this daemon was not started, has exited because no trainer registered, or has other settings.
    """
    try:
        if daemon or os.environ.get(names.NAME_VARIABLE) or is_held(names.run_dir(names.DEFAULT_NAME)):
            return None
        return Begun(load_settings())
    except (errors.AscpipeError, OSError):
        return None


def connect(daemon: Optional[str] = None, *, layout: int, begun: Optional[Begun] = None) -> TrainerLink:
    """Find a daemon and register with it.

    Args:
        daemon: name of the daemon, see ``ascpipe.ranks.LOCAL_RANK``. It defaults to $ASCPIPE_NAME. If there is no name,
            the daemon ``default`` is used if it is free and belongs to this user. Otherwise, the function starts a
            private daemon, which exits with this process.
        layout: ``ascpipe.layout.structs.layout_hash()``.
        begun: result of ``begin``. The function uses this private daemon or ends it.

    Raises:
        NotRunningError: the named daemon does not run.
        BusyError: the named daemon serves another trainer.
        NoAnswerError: the named daemon or ``default`` runs but does not respond.
        VersionError: the daemon has another layout.
        AscpipeError: another error occurred, for example a private daemon cannot start.
    """
    try:
        settings = load_settings()
        named = daemon or os.environ.get(names.NAME_VARIABLE)
        if named:
            return _register(names.run_dir(daemon_of_this_rank(named)), layout, settings, None)
        # usually there is no free daemon ``default`` of this user
        with contextlib.suppress(errors.NotRunningError, errors.BusyError, errors.RunDirError):
            return _register(names.run_dir(names.DEFAULT_NAME), layout, settings, None)
        ready = None if begun is None else begun.take(settings)
        if ready is not None:
            # the daemon exits if no trainer registers in time
            with contextlib.suppress(errors.NotRunningError):
                return _register_with_private(ready, layout, settings)
        return _register_with_private(_launch(settings).wait(), layout, settings)
    finally:
        if begun is not None:
            begun.end()


def _launch(settings: Settings) -> launch.Launching:
    """Start a private daemon. The daemons of several ranks use different ports and different files."""
    options: Dict[str, Any] = {}
    if settings.eviction_log and launched() and get_rank_size() > 1:
        options["eviction_log"] = path_of_rank(settings.eviction_log, get_rank_id())
    is_shared = bool(settings.metrics_port or settings.metrics_file or settings.dashboard_port)
    if is_shared and launched() and get_local_rank_size() > 1:
        number = daemon_of_this_rank(LOCAL_RANK)
        if settings.metrics_port:
            options["metrics_port"] = settings.metrics_port + int(number)
        if settings.dashboard_port:
            options["dashboard_port"] = settings.dashboard_port + int(number)
        if settings.metrics_file:
            path = settings.metrics_file[:-len(METRICS_SUFFIX)]
            options["metrics_file"] = "{}-{}{}".format(path, number, METRICS_SUFFIX)
    return launch.Launching(names.private_name(os.getpid()), private=True, options=options)


def _register_with_private(daemon: launch.Launched, layout: int, settings: Settings) -> TrainerLink:
    try:
        return _register(names.run_dir(daemon.name), layout, settings, daemon.process)
    except BaseException:
        daemon.process.terminate()
        child.reap(daemon.process)
        raise


def _register(run: RunDir, layout: int, settings: Settings,
              process: "Optional[subprocess.Popen[bytes]]") -> TrainerLink:
    check_run_directory(run)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        token = secrets.token_bytes(messages.TOKEN_BYTES)
        try:
            fdsocket.connect(sock, run.lifeline, _LIFELINE_TIMEOUT_S)
        except (FileNotFoundError, ConnectionRefusedError):
            raise errors.NotRunningError(run.name, run.path) from None
        except BlockingIOError:  # the listen queue is full
            raise errors.NoAnswerError(run.name, holder_of(run) or "?", "connect", _LIFELINE_TIMEOUT_S) from None
        _expect(sock, run, "hello")
        fdsocket.send(sock, {"verb": "trainer", "token": token})
        _expect(sock, run, "known")
        answer = ask(run, messages.Register(os.getpid(), layout, __version__, token))
        return TrainerLink(run, sock, token, answer, settings, process)
    except errors.ConnectionClosedError:
        sock.close()
        check_running(run)  # the daemon died; another daemon may have replaced it
        raise
    except BaseException:
        sock.close()
        raise


def _expect(sock: socket.socket, run: RunDir, verb: str) -> None:
    try:
        body = fdsocket.receive_body(sock, _LIFELINE_TIMEOUT_S)
    except errors.MessageTimeoutError:
        raise errors.NoAnswerError(run.name, holder_of(run) or "?", "connect", _LIFELINE_TIMEOUT_S) from None
    if body.get("verb") != verb:
        raise errors.PeerRefusedError("the daemon sent {!r}; expected {!r}".format(body.get("verb"), verb))


def _pieces(sizes: Dict[str, Any], fds: Sequence[int]) -> Segments:
    streams = sizes["streams"]
    rest = list(fds[1 + len(streams) + len(sizes["tables"]):])
    return Segments(
        (fds[0], sizes["session_bytes"]),
        {stream["stream"]: (fd, stream["bytes"]) for stream, fd in zip(streams, fds[1:])},
        {table["table"]: (fd, table["bytes"]) for table, fd in zip(sizes["tables"], fds[1 + len(streams):])},
        *((rest.pop(0), size) if size else (-1, 0) for size in sizes["spans_bytes"]))
