"""Declares every exception that ascpipe raises on purpose.

::

    AscpipeError
    +-- ConfigError            E402  a setting has a value we refuse
    |   `-- ConfigFileError    E403  the settings file cannot be read
    +-- NameRefusedError       E215  a name of a run that we refuse
    +-- DaemonError            E112  anything else between a trainer, the CLI and a daemon
    |   +-- NotRunningError    E212  no daemon of that name
    |   +-- AlreadyRunsError   E211  a daemon of that name runs already
    |   +-- BusyError          E210  the daemon serves another trainer
    |   +-- RunDirError        E214  the run directory is not safely ours
    |   +-- EndpointTooLongError E216 a unix socket path is limited to 107 bytes
    |   +-- NoAnswerError      E218  the daemon did not answer in time
    |   +-- NotStartedError    E213  a daemon or its workers did not get ready
    |   +-- WrongStateError    E219  a verb at the wrong time
    |   +-- PeerRefusedError   E217  the process that registers is not the one that is connected
    |   +-- VersionError       E220  trainer and daemon were built from different layouts
    |   +-- SupervisorGoneError E110 the daemon died
    |   `-- DaemonStoppedError E113  the daemon was stopped while it served
    +-- MessageError           E230  a control message that is not in the schema
    |   +-- ConnectionClosedError E231 the other end of a socket is gone
    |   `-- MessageTimeoutError E232 no whole message in time
    +-- SegmentError           E302  shared memory that is not what it should be
    |   `-- OutOfSharedMemoryError E401 too little memory, found out at start
    +-- WorkerError            E120  a worker process ended
    |   +-- TableWorkerDiedError E122  its state cannot be trusted
    |   +-- KeyWorkerDiedError E130  by anything but SIGKILL
    |   `-- CrashLoopError     E140  restarted too often
    +-- OpsMissingError        E221  the ops are not built (ascpipe/tfops/load.py)
    +-- OpsMismatchError       E222  they are built for another TensorFlow or layout
    +-- RanksError             E240  ranks cannot be started, or cannot join
    |   +-- HorovodMissingError E241 it is needed for several ranks, and is not there
    |   +-- HorovodVersionError E242 it is another version than the one that is supported
    |   `-- RanksDisagreeError E243  Horovod and the launcher do not say the same
    +-- NotBuiltYetError       E600  the reference has it, ascpipe does not yet
    +-- CheckpointError        E500  ascpipe/checkpoint/errors.py has the tree of these
    `-- RemoteError            E199  a code of the daemon that this version does not know

Errors of a step come from C++ and are classes of TensorFlow's.  Some have a code in their text: E110 as above, E204 (a
forked process uses the trainer's pipeline), E301 (damaged state in shared memory, or a damaged message of
another rank), E310, E311 and E312 (an exchange with other ranks came to nothing); see ``ascpipe/layout/codes.py``.

Codes and attributes are stable; texts are for people and may get better.  An error that was received
as a message (``received``) has its class, code and text, and ``None`` for the other attributes.
"""
from typing import TYPE_CHECKING, Any, ClassVar, Dict, Iterator, Optional, Tuple, Type

from ascpipe.layout import codes

_GIB = float(1 << 30)


class AscpipeError(Exception):
    """Base of all.

    Attributes:
        code: stable name of the error, such as ``"E211"``.
    """

    code = "E100"
    fields: ClassVar[Tuple[str, ...]] = ("text",)  #: names of the arguments, which are also the attributes
    template: ClassVar[str] = "{text}"

    _received: Optional[str] = None

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any:
            """The attributes named in ``fields``."""

    def __init__(self, *values: Any) -> None:
        if len(values) != len(self.fields):
            raise TypeError("{} takes {}".format(type(self).__name__, ", ".join(self.fields)))
        for name, value in zip(self.fields, values):
            setattr(self, name, value)
        super().__init__(*values)  # its arguments, so that it survives pickling

    def sentence(self) -> str:
        """The text without its code."""
        return self._text() if self._received is None else self._received

    def _text(self) -> str:
        return self.template.format(**{name: getattr(self, name) for name in self.fields})

    def __str__(self) -> str:
        return "{}: {}".format(self.code, self.sentence())


class ConfigError(AscpipeError):
    """A setting has a value we refuse.

    Attributes:
        setting: its name.
        origin: where the value came from (file, environment variable, option).
        value: as it was given.
        reason: what is allowed.
    """

    code = "E402"
    fields: ClassVar[Tuple[str, ...]] = ("setting", "origin", "value", "reason")
    template = "setting {setting!r} from {origin} has the value {value!r}: {reason}"


class ConfigFileError(ConfigError):
    """The settings file cannot be read; ``setting`` is empty."""

    code = "E403"
    template = "cannot read settings from {origin}: {reason}"


class NameRefusedError(AscpipeError):
    """A name of a run that could not be a file name everywhere."""

    code = "E215"
    fields: ClassVar[Tuple[str, ...]] = ("name",)
    template = ("{name!r} cannot name a daemon: use 1 to 48 of the characters A-Z a-z 0-9 _ . -, "
                "not starting with a dot or a dash")


class DaemonError(AscpipeError):
    """Between a trainer or the CLI and a daemon."""

    code = "E112"


class NotRunningError(DaemonError):
    """No daemon of that name."""

    code = "E212"
    fields: ClassVar[Tuple[str, ...]] = ("name", "run_dir")
    template = "no ascpipe daemon named {name!r} is running ({run_dir}). Start one with: ascpipe start --name {name}"


class AlreadyRunsError(DaemonError):
    """A daemon of that name runs already; it was not disturbed."""

    code = "E211"
    fields: ClassVar[Tuple[str, ...]] = ("name", "pid", "uid", "started", "run_dir")
    template = ("another ascpipe daemon (pid {pid}, uid {uid}, started {started}) owns {run_dir}. "
                "It was not disturbed. End it with: ascpipe stop --name {name}, or choose another --name")


class BusyError(DaemonError):
    """The daemon serves another trainer; one at a time."""

    code = "E210"
    fields: ClassVar[Tuple[str, ...]] = ("name", "pid", "since")
    template = ("daemon {name!r} already serves the trainer with pid {pid} since {since}. "
                "Wait for it to end, or start another: ascpipe start --name OTHER and set ASCPIPE_NAME=OTHER")


class RunDirError(DaemonError):
    """The run directory is not safely ours."""

    code = "E214"
    fields: ClassVar[Tuple[str, ...]] = ("path", "reason")
    template = ("will not use {path}: {reason}. Remove it, or choose a private directory of your own: "
                "XDG_RUNTIME_DIR for sockets, ASCPIPE_CACHE_DIR for compiled kernels")


class EndpointTooLongError(DaemonError):
    """A unix socket path is limited to 107 bytes."""

    code = "E216"
    fields: ClassVar[Tuple[str, ...]] = ("path", "length", "limit")
    template = ("socket path {path} has {length} bytes, at most {limit} are possible. "
                "Use a shorter --name or XDG_RUNTIME_DIR")


class NoAnswerError(DaemonError):
    """The daemon did not answer in time."""

    code = "E218"
    fields: ClassVar[Tuple[str, ...]] = ("name", "verb", "timeout_s")
    template = ("daemon {name!r} did not answer {verb!r} within {timeout_s:g} s. "
                "If it is stopped by a signal, continue it with kill -CONT")


class NotStartedError(DaemonError):
    """A daemon or its workers did not get ready."""

    code = "E213"
    fields: ClassVar[Tuple[str, ...]] = ("what", "reason")
    template = "{what} did not start: {reason}"


class WrongStateError(DaemonError):
    """A verb at the wrong time."""

    code = "E219"
    fields: ClassVar[Tuple[str, ...]] = ("verb", "state", "reason")
    template = "cannot {verb} now, the daemon is {state}: {reason}"


class PeerRefusedError(DaemonError):
    """The process that registers is not the one that is connected."""

    code = "E217"
    fields: ClassVar[Tuple[str, ...]] = ("reason",)
    template = "connection refused: {reason}"


class VersionError(DaemonError):
    """Trainer and daemon were built from different layouts."""

    code = "E220"
    fields: ClassVar[Tuple[str, ...]] = ("trainer_version", "trainer_layout", "daemon_version", "daemon_layout")
    template = ("trainer {trainer_version} (layout {trainer_layout:x}) cannot talk to daemon {daemon_version} "
                "(layout {daemon_layout:x}). Install matching versions and restart the daemon")


class SupervisorGoneError(DaemonError):
    """The daemon died; so the run is over."""

    code = "E110"
    fields: ClassVar[Tuple[str, ...]] = ("pid", "run_dir")
    template = codes.SUPERVISOR_GONE_TEXT + ". Cause, if known: {run_dir}/daemon.log"


class DaemonStoppedError(DaemonError):
    """The daemon was stopped while it served."""

    code = "E113"
    fields: ClassVar[Tuple[str, ...]] = ("reason",)
    template = ("the ascpipe daemon was ended ({reason}). What was trained since the last checkpoint is lost. "
                "Start a daemon and restart the program")


class MessageError(AscpipeError):
    """A control message that is not in the schema; it was dropped."""

    code = "E230"
    fields: ClassVar[Tuple[str, ...]] = ("reason",)
    template = "message refused: {reason}"


class ConnectionClosedError(MessageError):
    """The other end of a socket is gone (end of file)."""

    code = "E231"
    fields: ClassVar[Tuple[str, ...]] = ("peer",)
    template = "{peer} closed the connection"


class MessageTimeoutError(MessageError):
    """No whole message in time; nothing was taken from the stream if none had begun."""

    code = "E232"
    fields: ClassVar[Tuple[str, ...]] = ("peer", "reason")
    template = "{peer} {reason}"


class SegmentError(AscpipeError):
    """Shared memory that is not what it should be; it was not mapped."""

    code = "E302"
    fields: ClassVar[Tuple[str, ...]] = ("what", "reason")
    template = "shared memory {what} refused: {reason}"


class OutOfSharedMemoryError(SegmentError):
    """Too little memory, found out at start.

    Attributes:
        need_bytes: what was asked for.
        have: a sentence with what is there, for each limit.
    """

    code = "E401"
    fields: ClassVar[Tuple[str, ...]] = ("what", "need_bytes", "have")

    def _text(self) -> str:
        return ("need {:.2f} GiB ({} bytes) of shared memory for {}: {}. Nothing was started. "
                "Use a smaller --ring-bytes (of a private daemon: ASCPIPE_RING_BYTES) or smaller tables, or raise the "
                "limit").format(
                    self.need_bytes / _GIB, self.need_bytes, self.what, self.have)


class WorkerError(AscpipeError):
    """A worker process ended and could not simply be replaced."""

    code = "E120"
    fields: ClassVar[Tuple[str, ...]] = ("worker", "pid", "cause")
    template = "{worker} (pid {pid}) ended: {cause}"


class TableWorkerDiedError(WorkerError):
    """A table worker ended by anything but SIGKILL."""

    code = "E122"
    template = ("{worker} (pid {pid}) ended: {cause}. Its memory may be damaged, so it will not be reused. "
                "What was trained since the last checkpoint is lost. Restart the program")


class KeyWorkerDiedError(WorkerError):
    """A key worker ended by anything but SIGKILL."""

    code = "E130"
    template = ("{worker} (pid {pid}) ended: {cause}. No batch was half-applied. "
                "What was trained since the last checkpoint is lost. Restart the program")


class CrashLoopError(WorkerError):
    """A worker was restarted too often.

    Attributes:
        restarts: how often within ``window_s`` seconds.
    """

    code = "E140"
    fields: ClassVar[Tuple[str, ...]] = ("worker", "restarts", "window_s", "causes")
    template = ("{worker} was restarted {restarts} times in {window_s:g} s, giving up. Last causes: {causes}. "
                "What was trained since the last checkpoint is lost. Restart the program")


class RanksError(AscpipeError):
    """Ranks cannot be started, or cannot join."""

    code = "E240"


class HorovodMissingError(RanksError):
    """Several ranks need Horovod, and it cannot be imported.

    Attributes:
        reason: what the import said.
    """

    code = "E241"
    fields: ClassVar[Tuple[str, ...]] = ("reason",)
    template = ('several ranks need Horovod, which cannot be imported ({reason}). Install it: '
                '`make ranks` in the tree of ascpipe, or pip install --no-build-isolation "ascpipe[ranks]"')


class HorovodVersionError(RanksError):
    """Horovod is another version; its C++ functions are used, which no other version promises."""

    code = "E242"
    fields: ClassVar[Tuple[str, ...]] = ("found", "wanted")
    template = ('Horovod {found} is installed, and ascpipe works with {wanted} only. Install that one: '
                '`make ranks` in the tree of ascpipe, or pip install --no-build-isolation "ascpipe[ranks]"')


class RanksDisagreeError(RanksError):
    """Horovod and the launcher do not say the same; each is "rank R of N"."""

    code = "E243"
    fields: ClassVar[Tuple[str, ...]] = ("horovod", "launched")
    template = ("Horovod says {horovod}, the launcher says {launched}: call hvd.init() without arguments, and start "
                "all ranks by one launcher")


class NotBuiltYetError(AscpipeError, NotImplementedError):
    """An argument or a call asks for something that ascpipe cannot do yet: the error names it, nothing is ignored.

    Attributes:
        what: the argument or call, with its value.
        instead: what to do.
    """

    code = "E600"
    fields: ClassVar[Tuple[str, ...]] = ("what", "instead")
    template = "{what} is not built yet in ascpipe: {instead}"


class RemoteError(DaemonError):
    """A code of the daemon that this version does not know."""

    code = "E199"


def _subclasses(base: Type[AscpipeError]) -> Iterator[Type[AscpipeError]]:
    yield base
    for child in base.__subclasses__():
        yield from _subclasses(child)


def received(code: str, text: str) -> AscpipeError:
    """Make the error of a message: class by ``code``, text as received, other attributes None."""
    classes: Dict[str, Type[AscpipeError]] = {kind.code: kind for kind in _subclasses(AscpipeError)}
    kind = classes.get(code, RemoteError)
    error = kind(*[None] * len(kind.fields))
    error._received = text
    error.code = code
    return error


def number_of(code: str) -> int:
    """Return ``122`` of ``"E122"``: the value of the session segment's field `failed`."""
    return int(code[1:])
