"""Functions that keep the logs of private daemons whose session failed.

The functions copy the logs, because the run directory of a private daemon is removed when the daemon exits.

The logs of the last ``KEPT`` daemons are in one directory per daemon below ``$XDG_STATE_HOME/ascpipe/log``. The default
is ``~/.local/state/ascpipe/log``. Only this user can access the directories (0700).
"""
import os
import re
import shutil
from typing import List, NamedTuple

from ascpipe import names
from ascpipe.directories import refusing, user_state
from ascpipe.names import RunDir

KEPT = 10  #: maximum number of directories
MOST_BYTES = 8 << 20  #: maximum size of a copied log; the beginning of a longer log is not copied

_CAUSE = re.compile(r" ERROR session failed: (.*)$", re.MULTILINE)


class KeptLogs(NamedTuple):
    """Kept logs of one daemon.

    Attributes:
        path: directory of the logs.
        ended: time at which the daemon ended, in seconds since 1970.
        cause: error of the session, or an empty string if the log has no error, for example after SIGKILL.
    """

    name: str
    path: str
    ended: float
    cause: str


def base_dir() -> str:
    """Return the directory that contains all log directories. The parent may not exist."""
    return os.path.join(user_state(), "log")


def make_base_dir() -> str:
    """Create the directory that contains all log directories.

    Raises:
        RunDirError: other users can access the directory, or it cannot be created.
        DirectoryFullError: the file system is full.
    """
    base = base_dir()
    with refusing(base):
        os.makedirs(os.path.dirname(os.path.dirname(base)), mode=0o700, exist_ok=True)
        names.make_private_dir(os.path.dirname(base))
        names.make_private_dir(base)
    return base


def folder_of(name: str) -> str:
    """Return the directory that stores the logs of a daemon."""
    return os.path.join(base_dir(), name)


def keep(run: RunDir) -> str:
    """Copy the logs of a dead or exiting daemon, and remove the oldest directories beyond ``KEPT``.

    Returns:
        The directory, or an empty string if all logs are empty.

    Raises:
        RunDirError, DirectoryFullError: see ``make_base_dir``, or the logs cannot be copied.
    """
    logs = [name for name in run.files() if name.endswith(".log") and os.path.getsize(os.path.join(run.path, name))]
    if not logs:
        return ""
    make_base_dir()
    folder = folder_of(run.name)
    names.make_private_dir(folder)
    with refusing(folder):
        for name in logs:
            _copy_end(os.path.join(run.path, name), os.path.join(folder, name))
    for old in kept()[KEPT:]:
        shutil.rmtree(old.path, ignore_errors=True)
    return folder


def kept() -> List[KeptLogs]:
    """Return the logs that were kept, newest first."""
    base = base_dir()
    found = []
    for name in os.listdir(base) if os.path.isdir(base) else []:
        path = os.path.join(base, name)
        try:
            ended = os.path.getmtime(path)
            with open(os.path.join(path, "daemon.log"), encoding="utf-8", errors="replace") as file:
                causes = _CAUSE.findall(file.read())
        except OSError:  # another daemon has removed it, or there is no log
            continue
        found.append(KeptLogs(name, path, ended, causes[-1] if causes else ""))
    return sorted(found, key=lambda one: one.ended, reverse=True)


def _copy_end(path: str, target: str) -> None:
    with open(path, "rb") as source:
        source.seek(max(0, os.fstat(source.fileno()).st_size - MOST_BYTES))
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(fd, "wb") as file:
            file.write(source.read(MOST_BYTES))
