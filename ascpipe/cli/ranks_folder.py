"""Temporary folder in which the ranks of a run record the causes of failures.

If a run was killed, the next run removes the folder of the killed run.
"""
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from typing import Iterator, List

_PREFIX = "ascpipe-ranks-"
_YOUNG_S = 60.0  # a run may not have locked a new folder yet


@contextlib.contextmanager
def ranks_folder() -> Iterator[str]:
    """Context manager that creates and locks a folder, and removes it at the end of the block.

    If this process is killed, the kernel releases the lock.
    """
    sweep()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder
        finally:
            os.close(fd)


def sweep() -> List[str]:
    """Remove the folders of killed runs of this user. Return the paths of the removed folders."""
    swept = []
    parent = tempfile.gettempdir()
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        if name.startswith(_PREFIX) and _is_ours(path) and _is_dead(path):
            shutil.rmtree(path, ignore_errors=True)
            swept.append(path)
    return swept


def _is_ours(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:  # the run has removed the folder
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and time.time() - found.st_mtime > _YOUNG_S


def _is_dead(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # the run is still alive
        return False
    finally:
        os.close(fd)
    return True
