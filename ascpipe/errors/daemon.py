"""Errors between a trainer, the command line and a daemon."""
from typing import ClassVar, Tuple

from ascpipe.errors.base import AscpipeError
from ascpipe.layout import codes

_ELSEWHERE = ("take another directory: for sockets and logs one of `export XDG_RUNTIME_DIR=$(mktemp -d)`, in every "
              "process that uses the daemon; for compiled kernels one that ASCPIPE_CACHE_DIR names")


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
    """A run directory, or one of compiled kernels, is not safely ours, or cannot be used."""

    code = "E214"
    fields: ClassVar[Tuple[str, ...]] = ("path", "reason")
    template = ("will not use {path}: {reason}. Nothing of it was changed. Mend that, or " + _ELSEWHERE)


class DirectoryFullError(DaemonError):
    """A run directory, or one of compiled kernels, has no room for what must be written there.

    Attributes:
        path: what could not be made or written.
        reason: what the system says.
        room: what is free in its file system.
    """

    code = "E223"
    fields: ClassVar[Tuple[str, ...]] = ("path", "reason", "room")
    template = "no room for {path}: {reason}; {room}. Make room, or " + _ELSEWHERE


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
    """A process that is not the trainer which is connected or registered; nothing was changed."""

    code = "E217"
    fields: ClassVar[Tuple[str, ...]] = ("reason",)
    template = "refused: {reason}"


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


class RowFileError(DaemonError):
    """A directory cannot have row files; nothing was started.

    Attributes:
        table: its name.
        directory: of ``ssd_data_path``.
        reason: why.
    """

    code = "E420"
    fields: ClassVar[Tuple[str, ...]] = ("table", "directory", "reason")
    template = ("rows of table {table!r} cannot go to {directory!r}: {reason}. Nothing was started. Choose a directory "
                "on a disk that may be written to (ssd_data_path)")


class MetricsError(DaemonError):
    """Metrics were asked for and cannot be exported; nothing was started.

    Attributes:
        setting, value: that asks for them.
        reason: why.
    """

    code = "E224"
    fields: ClassVar[Tuple[str, ...]] = ("setting", "value", "reason")
    template = ("metrics cannot be exported as {setting} = {value} asks: {reason}. Nothing was started. Choose another "
                "port or file, or leave the setting out")


class MetricsMissingError(MetricsError):
    """The package that metrics need is not installed."""

    code = "E225"
    fields: ClassVar[Tuple[str, ...]] = ("setting", "value", "package")
    template = ('{setting} = {value} asks for metrics, which need the package {package}, and it is not installed. '
                'Nothing was started. Install it: pip install "ascpipe[metrics]", or leave the setting out')


class RemoteError(DaemonError):
    """A code of the daemon that this version does not know."""

    code = "E199"
