"""Errors of the communication of a trainer or the command line with a daemon."""
from typing import ClassVar, Tuple

from ascpipe.errors.base import AscpipeError
from ascpipe.layout import codes

_ELSEWHERE = ("use another directory: for sockets and logs, run `export XDG_RUNTIME_DIR=$(mktemp -d)` in every shell "
              "that uses the daemon; for compiled kernels, set ASCPIPE_CACHE_DIR")


class DaemonError(AscpipeError):
    """Base class of errors of the communication of a trainer or the command line with a daemon."""

    code = "E112"


class NotRunningError(DaemonError):
    """No daemon of the requested name is running."""

    code = "E212"
    fields: ClassVar[Tuple[str, ...]] = ("name", "run_dir")
    template = "No ascpipe daemon named {name!r} is running ({run_dir}). Start one with: ascpipe start --name {name}"


class AlreadyRunsError(DaemonError):
    """A daemon of the requested name is already running, and is not affected."""

    code = "E211"
    fields: ClassVar[Tuple[str, ...]] = ("name", "pid", "uid", "started", "run_dir")
    template = ("Another ascpipe daemon (pid {pid}, uid {uid}, started {started}) uses {run_dir}. "
                "It was not affected. Stop it with: ascpipe stop --name {name}, or choose another --name")


class BusyError(DaemonError):
    """The daemon already serves another trainer. A daemon can serve only one trainer at a time."""

    code = "E210"
    fields: ClassVar[Tuple[str, ...]] = ("name", "pid", "since")
    template = ("Daemon {name!r} has served the trainer with pid {pid} since {since}, and serves one trainer at a time."
                " Wait until it ends, or start another daemon: ascpipe start --name OTHER, and set ASCPIPE_NAME=OTHER")


class RunDirError(DaemonError):
    """A directory for runs or compiled kernels is not safe, or cannot be used."""

    code = "E214"
    fields: ClassVar[Tuple[str, ...]] = ("path", "reason")
    template = ("Directory {path} cannot be used: {reason}. Nothing in it was changed. Correct that, or " + _ELSEWHERE)


class DirectoryFullError(DaemonError):
    """The file system of a directory for runs or compiled kernels is full.

    Attributes:
        path: file or directory that could not be written.
        reason: error message of the system.
        room: free space of the file system.
    """

    code = "E223"
    fields: ClassVar[Tuple[str, ...]] = ("path", "reason", "room")
    template = "There is no space for {path}: {reason}; {room}. Free some space, or " + _ELSEWHERE


class EndpointTooLongError(DaemonError):
    """A unix socket path is longer than 107 bytes."""

    code = "E216"
    fields: ClassVar[Tuple[str, ...]] = ("path", "length", "limit")
    template = ("Socket path {path} has {length} bytes; the limit is {limit}. "
                "Use a shorter --name or XDG_RUNTIME_DIR")


class NoAnswerError(DaemonError):
    """The daemon did not answer before the timeout.

    Attributes:
        name: name of the daemon.
        pid: PID of the daemon, or ``"?"`` if the PID is unknown.
        verb: request.
        timeout_s: timeout in seconds.
    """

    code = "E218"
    fields: ClassVar[Tuple[str, ...]] = ("name", "pid", "verb", "timeout_s")
    template = ("Daemon {name!r} (pid {pid}) did not answer {verb!r} within {timeout_s:g} s. "
                "If a signal stopped it, continue it with: kill -CONT {pid}")


class NotStartedError(DaemonError):
    """A daemon or one of its workers did not start."""

    code = "E213"
    fields: ClassVar[Tuple[str, ...]] = ("what", "reason")
    template = "{what} did not start: {reason}"


class WrongStateError(DaemonError):
    """The daemon's state does not allow the request."""

    code = "E219"
    fields: ClassVar[Tuple[str, ...]] = ("verb", "state", "reason")
    template = "The daemon cannot {verb} while it is {state}: {reason}"


class PeerRefusedError(DaemonError):
    """A daemon or trainer refused a connection or request from another process. Nothing was changed."""

    code = "E217"
    fields: ClassVar[Tuple[str, ...]] = ("reason",)
    template = "refused: {reason}"


class VersionError(DaemonError):
    """The trainer and the daemon were built with different shared-memory layouts."""

    code = "E220"
    fields: ClassVar[Tuple[str, ...]] = ("trainer_version", "trainer_layout", "daemon_version", "daemon_layout")
    template = ("Trainer {trainer_version} (layout {trainer_layout:x}) cannot use daemon {daemon_version} "
                "(layout {daemon_layout:x}). Install matching versions and restart the daemon")


class SupervisorGoneError(DaemonError):
    """The daemon died, so the run has ended."""

    code = "E110"
    fields: ClassVar[Tuple[str, ...]] = ("pid", "run_dir")
    template = codes.SUPERVISOR_GONE_TEXT + ". Cause, if known: {run_dir}/daemon.log"


class DaemonStoppedError(DaemonError):
    """The daemon was stopped while a trainer used it."""

    code = "E113"
    fields: ClassVar[Tuple[str, ...]] = ("reason",)
    template = ("The ascpipe daemon was stopped ({reason}). Training since the last checkpoint is lost. "
                "Start a daemon, then restart the program")


class RowFileError(DaemonError):
    """Row files cannot be created in a directory. Nothing was started.

    Attributes:
        table: name of the table.
        directory: directory of ``ssd_data_path``.
        reason: reason why row files cannot be created.
    """

    code = "E420"
    fields: ClassVar[Tuple[str, ...]] = ("table", "directory", "reason")
    template = ("Rows of table {table!r} cannot be stored in {directory!r}: {reason}. Nothing was started. Choose a "
                "directory on a writable disk (ssd_data_path)")


class MetricsError(DaemonError):
    """Metrics are configured but cannot be exported. Nothing was started.

    Attributes:
        setting, value: name and value of the setting that enables metrics.
        reason: reason why metrics cannot be exported.
    """

    code = "E224"
    fields: ClassVar[Tuple[str, ...]] = ("setting", "value", "reason")
    template = ("Metrics cannot be exported with {setting} = {value}: {reason}. Nothing was started. Choose another "
                "port or file, or remove the setting")


class MetricsMissingError(MetricsError):
    """The package that exports metrics is not installed."""

    code = "E225"
    fields: ClassVar[Tuple[str, ...]] = ("setting", "value", "package")
    template = ('{setting} = {value} enables metrics, which need the package {package}, and it is not installed. '
                'Nothing was started. Install it: pip install "ascpipe[metrics]", or remove the setting')


class EvictionLogError(DaemonError):
    """The log of evicted and deleted keys cannot be written.

    Attributes:
        path: path of the file.
        reason: reason why lines cannot be written.
        effect: consequence.
    """

    code = "E228"
    fields: ClassVar[Tuple[str, ...]] = ("path", "reason", "effect")
    template = ("The eviction log {path} cannot be written: {reason}. {effect}. Free space, or choose another file "
                "(eviction_log)")


class DashboardError(DaemonError):
    """The dashboard cannot listen on its port. Nothing was started.

    Attributes:
        port: port of 127.0.0.1.
        reason: reason why it cannot be opened.
    """

    code = "E229"
    fields: ClassVar[Tuple[str, ...]] = ("port", "reason")
    template = ("The dashboard cannot be served on port {port} of 127.0.0.1: {reason}. Nothing was started. Choose "
                "another port (dashboard_port, or --port of `ascpipe dashboard`), or 0 for a free port")


class RemoteError(DaemonError):
    """The daemon replied with an error code that this version does not know."""

    code = "E199"
