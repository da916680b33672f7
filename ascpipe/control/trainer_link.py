"""The trainer's link to its daemon: finds or starts one, registers, gets the segments.

The daemon sees the trainer's death by the lifeline's end of file, and the other way round:
``lifeline_fd`` gets POLLHUP when the supervisor is gone.
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
from ascpipe.control.client import TIMEOUT_S, ask, check_running, check_there
from ascpipe.control.lock import is_held
from ascpipe.names import RunDir
from ascpipe.ranks import LOCAL_RANK, daemon_of_this_rank, get_local_rank_size, launched

_START_TIMEOUT_S = 120.0  # allocating large segments takes its time
_LIFELINE_TIMEOUT_S = 10.0
_SILENT_S = 1.0  # for the last answer of a daemon that has not answered what it was asked before it

#: descriptor and bytes of a segment
Piece = Tuple[int, int]


class Segments(NamedTuple):
    """What a start gave us; the descriptors are closed by ``close_segments`` or with the link.

    Attributes:
        session: the session segment.
        streams: stream number -> its ring.
        tables: table number -> its segment.
        exchange_spans: where exchanges among ranks are recorded; descriptor -1 where they are not.
    """

    session: Piece
    streams: Dict[int, Piece]
    tables: Dict[int, Piece]
    exchange_spans: Piece


class TrainerLink:
    """A registered trainer.  Made by ``connect``.

    Attributes:
        run: run number, 1 to 32767; the upper 16 bits of every ticket.
        daemon_pid: of the supervisor.
        lifeline_fd: poll it for POLLHUP; owned by the link.
        name: of the daemon.
        private: the daemon ends with us.
        settings: in force in this process; a named daemon may have others.
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
        """Have the segments made and the workers attached; once per link.

        Raises:
            OutOfSharedMemoryError: too little memory, with numbers; the link stays usable.
            WorkerError: the workers cannot run.
            MessageError: an argument out of range.
            SupervisorGoneError: the daemon died.
            WrongStateError: started before, or closed.
        """
        self._require_ours("start")
        if self._closed or self._started:
            raise errors.WrongStateError("start", "closed" if self._closed else "serving", "a link starts once")
        sizes, fds = self._ask_for_segments(
            messages.Start(tuple(streams), tuple(tables), self._token), 1 + len(streams) + len(tables))
        self._started = True
        return _pieces(sizes, fds)

    def add_stream(self, stream: messages.Stream) -> Piece:
        """Have the ring of one more stream made, and the workers look after it.

        Returns:
            The ring; its descriptor is closed by ``close_segments`` or with the link.

        Raises:
            OutOfSharedMemoryError: too little memory, with numbers; the session goes on as it was.
            AscpipeError: else as ``start``; also why the session has failed.
        """
        return self._add("add_stream", messages.AddStream(stream, self._token))

    def add_table(self, table: messages.Table) -> Piece:
        """Have the segment of one more table made, or another one of a table that was not trained.

        Returns, raises: as ``add_stream``.
        """
        return self._add("add_table", messages.AddTable(table, self._token))

    def _add(self, verb: str, body: messages.Body) -> Piece:
        self._require_ours(verb)
        if self._closed or not self._started:
            raise errors.WrongStateError(verb, "closed" if self._closed else "registered",
                                  "streams and tables are added to a session that was started")
        sizes, fds = self._ask_for_segments(body, 1)
        return fds[0], int(sizes["bytes"])

    def _require_ours(self, verb: str) -> None:
        if os.getpid() != self._owner:
            raise errors.WrongStateError(verb, "serving", "this is a forked child of the trainer")

    def _ask_for_segments(self, body: messages.Body, wanted: int) -> Tuple[Dict[str, Any], List[int]]:
        """Ask, and take the descriptors that come with the answer; they are ours from then on."""
        try:
            sizes = self._ask(body, _START_TIMEOUT_S)
            message, fds = fdsocket.receive(self._sock, _LIFELINE_TIMEOUT_S)
        except (errors.NotRunningError, errors.MessageError) as error:
            if isinstance(error, errors.NotRunningError) or fdsocket.is_closed(self._sock):
                raise errors.SupervisorGoneError(self.daemon_pid, self._run_dir.path) from error
            raise
        self._fds.extend(fds)
        wanted += 1 if sizes.get("exchange_spans_bytes") else 0
        if message.get("verb") != "segments" or len(fds) != wanted:
            raise errors.MessageError("the daemon sent {} descriptors, expected {}".format(len(fds), wanted))
        return sizes, fds

    def close_segments(self) -> None:
        """Close the descriptors of the segments, once they are mapped.

        Mappings are not inherited by forked children, descriptors are: a child that outlives us would keep
        the memory.
        """
        for fd in self._fds:
            os.close(fd)
        self._fds = []

    def status(self) -> Dict[str, Any]:
        """What ``ascpipe status --json`` prints."""
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
        """Say bye and give everything back.  Idempotent; a private daemon has ended when this returns.

        In a forked child it only closes the child's copies: the session is its parent's.
        """
        if self._closed:
            return
        self._closed = True
        is_ours = os.getpid() == self._owner
        with contextlib.suppress(errors.AscpipeError):  # it is gone, or will see the lifeline close
            if is_ours and not fdsocket.is_closed(self._sock):
                ask(self._run_dir, messages.Bye(self._token), _SILENT_S if self._is_silent else TIMEOUT_S)
        self._sock.close()
        self.lifeline_fd = -1
        self.close_segments()
        if is_ours and self._process is not None:
            child.reap(self._process)


class Begun:
    """A private daemon that loads while its trainer does something else; ``begin`` makes it, ``connect`` takes it.

    Args:
        settings: in force when it began.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._launching: Optional[launch.Launching] = _launch(settings)

    def take(self, settings: Settings) -> Optional[launch.Launched]:
        """The daemon, once it is ready, if it is as one that began now; raises as ``Launching.wait``."""
        launching = self._launching
        if launching is None or not launching.is_current() or settings != self._settings:
            return None
        self._launching = None
        return launching.wait()

    def end(self) -> None:
        """End it, unless it was taken. Idempotent."""
        launching, self._launching = self._launching, None
        if launching is not None:
            launching.end()


def require(daemon: str) -> None:
    """Raise NotRunningError where no daemon of this name runs, RunDirError where its directory is not ours alone."""
    check_running(names.run_dir(daemon_of_this_rank(daemon)))


def begin(daemon: Optional[str] = None) -> Optional[Begun]:
    """Start the private daemon that ``connect`` will need, and return at once; None where it will need none.

    It is never needed: what is wrong is said by ``connect``, which starts one where none has begun, or where it ended
    because no trainer registered, or the settings have changed since.
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
        daemon: name of the daemon, see ``ascpipe.ranks.LOCAL_RANK``; else $ASCPIPE_NAME.  Without either: the one
            named ``default`` if it runs, is ours and is free, else a private one that ends with this process.
        layout: ``ascpipe.layout.structs.layout_hash()``.
        begun: what ``begin`` has started; used for a private daemon, or ended.

    Raises:
        NotRunningError: the daemon that was named is not there.
        BusyError: it serves another trainer.
        NoAnswerError: it lives and does not react; also the one named ``default``.
        VersionError: it was built from another layout.
        AscpipeError: any other reason, such as a private daemon that cannot start.
    """
    try:
        settings = load_settings()
        named = daemon or os.environ.get(names.NAME_VARIABLE)
        if named:
            return _register(names.run_dir(daemon_of_this_rank(named)), layout, settings, None)
        # the usual case: there is no free default daemon of ours
        with contextlib.suppress(errors.NotRunningError, errors.BusyError, errors.RunDirError):
            return _register(names.run_dir(names.DEFAULT_NAME), layout, settings, None)
        ready = None if begun is None else begun.take(settings)
        if ready is not None:
            # it leaves when no trainer has registered for too long
            with contextlib.suppress(errors.NotRunningError):
                return _register_with_private(ready, layout, settings)
        return _register_with_private(_launch(settings).wait(), layout, settings)
    finally:
        if begun is not None:
            begun.end()


def _launch(settings: Settings) -> launch.Launching:
    """Start a private daemon. Those of the ranks of a machine have metrics of their own."""
    options: Dict[str, Any] = {}
    if (settings.metrics_port or settings.metrics_file) and launched() and get_local_rank_size() > 1:
        number = daemon_of_this_rank(LOCAL_RANK)
        if settings.metrics_port:
            options["metrics_port"] = settings.metrics_port + int(number)
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
    check_there(run)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        token = secrets.token_bytes(messages.TOKEN_BYTES)
        try:
            fdsocket.connect(sock, run.lifeline, _LIFELINE_TIMEOUT_S)
        except (FileNotFoundError, ConnectionRefusedError):
            raise errors.NotRunningError(run.name, run.path) from None
        except BlockingIOError:  # others wait, too, and none is accepted
            raise errors.NoAnswerError(run.name, "connect", _LIFELINE_TIMEOUT_S) from None
        _expect(sock, run.name, "hello")
        fdsocket.send(sock, {"verb": "trainer", "token": token})
        _expect(sock, run.name, "known")
        answer = ask(run, messages.Register(os.getpid(), layout, __version__, token))
        return TrainerLink(run, sock, token, answer, settings, process)
    except errors.ConnectionClosedError:
        sock.close()
        check_running(run)  # it has died: another may take its place
        raise
    except BaseException:
        sock.close()
        raise


def _expect(sock: socket.socket, name: str, verb: str) -> None:
    try:
        body = fdsocket.receive_body(sock, _LIFELINE_TIMEOUT_S)
    except errors.MessageTimeoutError:
        raise errors.NoAnswerError(name, "connect", _LIFELINE_TIMEOUT_S) from None
    if body.get("verb") != verb:
        raise errors.PeerRefusedError("the daemon said {!r}, expected {!r}".format(body.get("verb"), verb))


def _pieces(sizes: Dict[str, Any], fds: Sequence[int]) -> Segments:
    streams = sizes["streams"]
    spans_bytes = sizes["exchange_spans_bytes"]
    return Segments(
        (fds[0], sizes["session_bytes"]),
        {stream["stream"]: (fd, stream["bytes"]) for stream, fd in zip(streams, fds[1:])},
        {table["table"]: (fd, table["bytes"]) for table, fd in zip(sizes["tables"], fds[1 + len(streams):])},
        (fds[-1], spans_bytes) if spans_bytes else (-1, 0))
