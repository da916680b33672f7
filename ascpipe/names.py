"""Names and paths of all files of a daemon: run directory, sockets, lock, logs.

The run directory is ``$XDG_RUNTIME_DIR/ascpipe/<name>``, or ``/tmp/ascpipe-<uid>/<name>`` if $XDG_RUNTIME_DIR is not a
directory. The run directory and its parent have mode 0700.
"""
import contextlib
import os
import re
import secrets
import stat
from typing import List, Optional

from ascpipe.directories import refusing
from ascpipe.errors import EndpointTooLongError, NameRefusedError, RunDirError

DEFAULT_NAME = "default"
NAME_VARIABLE = "ASCPIPE_NAME"
#: `ascpipe plan --program` sets this variable to a path. The program writes its tables there and stops before its first
#: step.
PLAN_VARIABLE = "ASCPIPE_PLAN"
ENDPOINT_BYTES = 107  #: maximum length of a unix socket path, without its final NUL

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,47}")
_PRIVATE = re.compile(r"private-[0-9]+-[0-9a-f]{12}")
_WORKER_LOG = re.compile(r"(key|table|disk|template|metrics)-[0-9]+\.log")
_WORKER_SPANS = re.compile(r"(key|table|disk)-[0-9]+\.spans")


class RunDir:
    """Paths of the files of one daemon.

    Attributes:
        name: name of the daemon.
        path: run directory.
        lock: lock file. The daemon locks it (flock) until it exits.
        control: control socket.
        lifeline: socket that passes descriptors. End of file means that the peer has exited.
        owner: JSON description of the process that holds the lock.
        log: log of the daemon.
        exchange_spans: spans of the trainer's exchanges with other ranks. The file exists if there are several ranks.
        reading_spans: spans of the trainer's threads that read training data.
        saves: record of the last checkpoints of the session.
        dashboard: address of the dashboard, if the daemon serves it. The address is a secret of this user.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = os.path.join(base_dir(), name)
        self.lock = os.path.join(self.path, "lock")
        self.control = os.path.join(self.path, "control.sock")
        self.lifeline = os.path.join(self.path, "lifeline.sock")
        self.owner = os.path.join(self.path, "owner.json")
        self.log = os.path.join(self.path, "daemon.log")
        self.exchange_spans = os.path.join(self.path, "exchanges.spans")
        self.reading_spans = os.path.join(self.path, "reading.spans")
        self.saves = os.path.join(self.path, "saves.json")
        self.dashboard = os.path.join(self.path, "dashboard.url")

    def worker_log(self, worker: str) -> str:
        """Return the log path of a worker such as ``"key-0"``. The log contains the stderr of the worker's most recent
        process.
        """
        return os.path.join(self.path, worker + ".log")

    def worker_spans(self, worker: str) -> str:
        """Return the path of the span file of a worker such as ``"key-0"``."""
        return os.path.join(self.path, worker + ".spans")

    def span_files(self) -> List[str]:
        """Return the names of the workers' span files that exist in the run directory."""
        return [name for name in sorted(os.listdir(self.path)) if _WORKER_SPANS.fullmatch(name)]

    def files(self) -> List[str]:
        """Return the names of the daemon's files that exist in the run directory. Callers delete only these files.
        """
        own = {os.path.basename(path) for path in (
            self.lock, self.control, self.lifeline, self.owner, self.log, self.exchange_spans,
            self.reading_spans, self.saves, self.saves + ".new", self.dashboard)}
        return [name for name in sorted(os.listdir(self.path)) if name in own or _WORKER_LOG.fullmatch(name)
                or _WORKER_SPANS.fullmatch(name)]


def dashboard_of(run: RunDir) -> str:
    """Return the address of a daemon's dashboard, or an empty string if the daemon does not serve a dashboard."""
    try:
        with open(run.dashboard, encoding="ascii") as file:
            return file.readline().strip()
    except (OSError, ValueError):
        return ""


def run_dir(name: str) -> RunDir:
    """Return the run directory of the daemon ``name``. The directory may be missing.

    Raises:
        NameRefusedError: the name is invalid.
        EndpointTooLongError: the path of a socket is too long.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise NameRefusedError(name)
    found = RunDir(name)
    for path in (found.control, found.lifeline):
        length = len(os.fsencode(path))
        if length > ENDPOINT_BYTES:
            raise EndpointTooLongError(path, length, ENDPOINT_BYTES)
    return found


def base_dir() -> str:
    """Return the parent directory of all run directories of this user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):  # after su or in cron, the directory often does not exist
        return os.path.join(runtime, "ascpipe")
    return "/tmp/ascpipe-{}".format(os.geteuid())  # noqa: S108  (checked: ours, 0700, no link)


def known_names() -> List[str]:
    """Return the names of the run directories of this user. The daemons may be dead.

    Raises:
        RunDirError: the parent of run directories is not private to this user.
    """
    base = base_dir()
    try:
        check_private_dir(base)
        return sorted(name for name in os.listdir(base) if _NAME.fullmatch(name))
    except FileNotFoundError:
        return []


def private_name(pid: int) -> str:
    """Return a random name for the private daemon of one trainer."""
    return "private-{}-{}".format(pid, secrets.token_hex(6))


def is_private_name(name: str) -> bool:
    """Return whether a name has the form of the names that ``private_name`` returns."""
    return _PRIVATE.fullmatch(name) is not None


def daemon_name(name: Optional[str] = None) -> str:
    """Return ``name``, $ASCPIPE_NAME or ``"default"``, in this order of preference."""
    return name or os.environ.get(NAME_VARIABLE) or DEFAULT_NAME


def make_private_dir(path: str) -> None:
    """Create a directory with mode 0700, or check that an existing directory is private.

    Raises:
        RunDirError: the directory belongs to another user, is accessible to other users, or is not a
            directory. It is not changed.
        DirectoryFullError: the file system is full.
    """
    with refusing(path), contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    check_private_dir(path)


def check_private_dir(path: str) -> None:
    """Raise an error if other users could have created a directory, or can change it.

    Raises:
        FileNotFoundError: the directory does not exist.
        RunDirError: the directory belongs to another user, is accessible to other users, or cannot be checked.
    """
    try:
        status = os.lstat(path)
    except (NotADirectoryError, PermissionError) as error:  # the error concerns the parent directory
        raise RunDirError(path, error.strerror or str(error)) from error
    if stat.S_ISLNK(status.st_mode):
        raise RunDirError(path, "it is a symbolic link")
    if not stat.S_ISDIR(status.st_mode):
        raise RunDirError(path, "it is not a directory")
    if status.st_uid != os.geteuid():
        raise RunDirError(path, "it belongs to uid {}, we are {}".format(status.st_uid, os.geteuid()))
    if status.st_mode & 0o077:
        raise RunDirError(path, "others may use it (mode {:o}, expected 700)".format(stat.S_IMODE(status.st_mode)))
