"""Makes and parses the name of every file that a daemon has: run directory, sockets, lock, logs.

The run directory is ``$XDG_RUNTIME_DIR/ascpipe/<name>``, or ``/tmp/ascpipe-<uid>/<name>`` where there is no
such directory.  Only this user may open it (0700), and its parent.
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
ENDPOINT_BYTES = 107  #: of a unix socket path, without its final NUL

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,47}")
_PRIVATE = re.compile(r"private-[0-9]+-[0-9a-f]{12}")
_WORKER_LOG = re.compile(r"(key|table|disk|template|metrics)-[0-9]+\.log")
_WORKER_SPANS = re.compile(r"(key|table|disk)-[0-9]+\.spans")


class RunDir:
    """The files of one daemon.

    Attributes:
        name: of the daemon.
        path: the directory.
        lock: locked (flock) as long as the daemon lives.
        control: socket of the control plane.
        lifeline: socket whose end of file means the death of the other side; it passes descriptors.
        owner: JSON: the process that has the lock.
        log: of the daemon.
        exchange_spans: spans of the exchanges of its trainer, if it is one of several ranks and they are kept.
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

    def worker_log(self, worker: str) -> str:
        """Log of a worker (``"key-0"``): its stderr since its start."""
        return os.path.join(self.path, worker + ".log")

    def worker_spans(self, worker: str) -> str:
        """File of spans of a worker (``"key-0"``), if it records them."""
        return os.path.join(self.path, worker + ".spans")

    def span_files(self) -> List[str]:
        """Names of the files of ``worker_spans`` that are there."""
        return [name for name in sorted(os.listdir(self.path)) if _WORKER_SPANS.fullmatch(name)]

    def files(self) -> List[str]:
        """Names of files in the directory that a daemon makes; other files are never deleted."""
        own = {os.path.basename(path) for path in (
            self.lock, self.control, self.lifeline, self.owner, self.log, self.exchange_spans)}
        return [name for name in sorted(os.listdir(self.path)) if name in own or _WORKER_LOG.fullmatch(name)
                or _WORKER_SPANS.fullmatch(name)]


def run_dir(name: str) -> RunDir:
    """Return the run directory of the daemon ``name``, without a look at the disk.

    Raises:
        NameRefusedError: not a name.
        EndpointTooLongError: its sockets would have too long a path.
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
    """The parent of all run directories of this user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):  # after su or in cron it often names none
        return os.path.join(runtime, "ascpipe")
    return "/tmp/ascpipe-{}".format(os.geteuid())  # noqa: S108  (checked: ours, 0700, no link)


def known_names() -> List[str]:
    """Names of run directories of this user; their daemons may be dead.

    Raises:
        RunDirError: their parent is not ours alone.
    """
    base = base_dir()
    try:
        check_private_dir(base)
        return sorted(name for name in os.listdir(base) if _NAME.fullmatch(name))
    except FileNotFoundError:
        return []


def private_name(pid: int) -> str:
    """A random name for the daemon of one trainer."""
    return "private-{}-{}".format(pid, secrets.token_hex(6))


def is_private_name(name: str) -> bool:
    """Was ``name`` made by ``private_name``?"""
    return _PRIVATE.fullmatch(name) is not None


def daemon_name(name: Optional[str] = None) -> str:
    """``name``, else $ASCPIPE_NAME, else ``"default"``."""
    return name or os.environ.get(NAME_VARIABLE) or DEFAULT_NAME


def make_private_dir(path: str) -> None:
    """Make a directory that only this user may open, or check that it is one.

    Raises:
        RunDirError: it belongs to another user, is open to others, or is no directory; it is not changed.
        DirectoryFullError: there is no room for it.
    """
    with refusing(path), contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    check_private_dir(path)


def check_private_dir(path: str) -> None:
    """Refuse a directory that others could have made or could change.

    Raises:
        FileNotFoundError: it does not exist.
        RunDirError: another user owns it or may open it, or it cannot be looked at.
    """
    try:
        status = os.lstat(path)
    except (NotADirectoryError, PermissionError) as error:  # of its parent
        raise RunDirError(path, error.strerror or str(error)) from error
    if stat.S_ISLNK(status.st_mode):
        raise RunDirError(path, "it is a symbolic link")
    if not stat.S_ISDIR(status.st_mode):
        raise RunDirError(path, "it is not a directory")
    if status.st_uid != os.geteuid():
        raise RunDirError(path, "it belongs to uid {}, we are {}".format(status.st_uid, os.geteuid()))
    if status.st_mode & 0o077:
        raise RunDirError(path, "others may use it (mode {:o}, expected 700)".format(stat.S_IMODE(status.st_mode)))
