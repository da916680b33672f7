"""Lock of a run directory. The process that holds the lock of a run directory is the directory's daemon.

The kernel releases the lock when that process exits. Cleaners of /tmp or users may remove the lock file, so a process
that listens on the lifeline also counts as the daemon.
"""
import fcntl
import json
import os
import socket
import time
from typing import Any, Dict, Optional

from ascpipe.names import RunDir

_PATIENCE_S = 1.0  # ``is_held`` of another process acquires the lock for a moment
_PAUSE_S = 0.01


def try_acquire(run: RunDir) -> Optional[int]:
    """Acquire the lock of a run directory. Return the lock file's descriptor, or None if a daemon holds the lock.

    Child processes do not inherit the descriptor.

    Raises:
        OSError: the directory is missing, or the file cannot be opened (a symbolic link, for instance).
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        fd = os.open(run.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_current(fd, run):
                return fd
        except BlockingIOError:
            pass
        os.close(fd)
        if time.monotonic() > deadline:
            return None
        time.sleep(_PAUSE_S)


def is_listening(path: str) -> bool:
    """Return True if a process, even a stopped process, listens on the unix socket ``path``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            sock.connect(path)
        except BlockingIOError:  # the listen queue is full
            return True
        except OSError:
            return False
    return True


def is_held(run: RunDir) -> bool:
    """Return True if a daemon holds the lock of the run directory."""
    return is_locked(run.lock)


def is_locked(path: str) -> bool:
    """Return True if a process has locked the file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def is_current(fd: int, run: RunDir) -> bool:
    """Return True if ``fd`` still refers to the lock file of ``run``. A user or a program that cleans /tmp may have
    removed the file.
    """
    try:
        there = os.stat(run.lock)
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def owner_of(run: RunDir) -> Dict[str, Any]:
    """Return the content of the owner file: name, pid, uid, started. The value of an unreadable field is a
    question mark.
    """
    unknown = {"pid": "?", "uid": "?", "started": "?"}
    try:
        with open(run.owner, encoding="utf-8") as file:
            owner = json.load(file)
    except (OSError, ValueError):
        return unknown
    return {**unknown, **owner} if isinstance(owner, dict) else unknown


def holder_of(run: RunDir) -> Optional[int]:
    """Return the PID of the running daemon of a run directory, or None if no daemon runs or its PID is unknown."""
    pid = owner_of(run)["pid"] if is_held(run) else None
    return pid if isinstance(pid, int) and pid > 0 else None
