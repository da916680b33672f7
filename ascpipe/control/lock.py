"""Locks a run directory: the process that holds the lock is the daemon; the kernel releases it when that dies.

Lock and sockets are files, which others may remove: cleaners of /tmp, or a hand.  So it counts as well whether a
process listens at the lifeline: a daemon that lost its lock still does.
"""
import fcntl
import os
import socket
import time
from typing import Optional

from ascpipe.names import RunDir

_PATIENCE_S = 1.0  # ``is_held`` of another process takes the lock for a moment
_PAUSE_S = 0.01


def try_acquire(run: RunDir) -> Optional[int]:
    """Take the lock for the life of the returned descriptor, which is not inherited; None if a daemon has it.

    Raises:
        OSError: the directory is missing, or the file cannot be opened (a link, for instance).
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
    """Does a process, if only a stopped one, listen at this unix socket?"""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            sock.connect(path)
        except BlockingIOError:  # there is a queue, and it is full
            return True
        except OSError:
            return False
    return True


def is_held(run: RunDir) -> bool:
    """Does a daemon live there?"""
    return is_locked(run.lock)


def is_locked(path: str) -> bool:
    """Does a process hold the lock of a file?"""
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
    """Is this still the file at the path?  A sweep may have removed it between open and flock, or a hand later."""
    try:
        there = os.stat(run.lock)
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
