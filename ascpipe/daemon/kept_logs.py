"""Keeps the logs of private daemons whose session failed: their run directories go with them.

A folder for each, named after the daemon, the last ``KEPT`` of them, below ``$XDG_STATE_HOME/ascpipe/log``, or
``~/.local/state/ascpipe/log`` where that is not set.  Only this user may open it (0700).
"""
import os
import re
import shutil
from typing import List, NamedTuple

from ascpipe import names
from ascpipe.directories import refusing
from ascpipe.names import RunDir

KEPT = 10  #: folders
MOST_BYTES = 8 << 20  #: of a log; of a longer one its end

_CAUSE = re.compile(r" ERROR session failed: (.*)$", re.MULTILINE)


class KeptLogs(NamedTuple):
    """What is kept of a daemon.

    Attributes:
        name: of the daemon.
        path: the folder.
        ended: seconds since 1970.
        cause: why its session failed; empty if its log does not tell, as of a daemon that was killed.
    """

    name: str
    path: str
    ended: float
    cause: str


def base_dir() -> str:
    """The folder of all of them; it may not be there."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return os.path.join(state if os.path.isabs(state) else os.path.expanduser("~/.local/state"), "ascpipe", "log")


def make_base_dir() -> str:
    """Make it.

    Raises:
        RunDirError: it is not ours alone, or cannot be made.
        DirectoryFullError: there is no room.
    """
    base = base_dir()
    with refusing(base):
        os.makedirs(os.path.dirname(os.path.dirname(base)), mode=0o700, exist_ok=True)
        names.make_private_dir(os.path.dirname(base))
        names.make_private_dir(base)
    return base


def folder_of(name: str) -> str:
    """Where the logs of a daemon are kept."""
    return os.path.join(base_dir(), name)


def keep(run: RunDir) -> str:
    """Copy the logs of a daemon that has ended or is about to, and remove the oldest folders beyond ``KEPT``.

    Returns:
        The folder; empty if there was nothing in the logs.

    Raises:
        RunDirError, DirectoryFullError: as ``make_base_dir``, or where they cannot be copied.
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
    """What is kept, the newest first."""
    base = base_dir()
    found = []
    for name in os.listdir(base) if os.path.isdir(base) else []:
        path = os.path.join(base, name)
        try:
            ended = os.path.getmtime(path)
            with open(os.path.join(path, "daemon.log"), encoding="utf-8", errors="replace") as file:
                causes = _CAUSE.findall(file.read())
        except OSError:  # another daemon has just removed it, or it was killed before it wrote anything
            continue
        found.append(KeptLogs(name, path, ended, causes[-1] if causes else ""))
    return sorted(found, key=lambda one: one.ended, reverse=True)


def _copy_end(path: str, target: str) -> None:
    with open(path, "rb") as source:
        source.seek(max(0, os.fstat(source.fileno()).st_size - MOST_BYTES))
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(fd, "wb") as file:
            file.write(source.read(MOST_BYTES))
