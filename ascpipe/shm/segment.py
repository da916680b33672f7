"""Shared memory: made by the supervisor, handed over as a descriptor, mapped by everybody.

A segment has no name that outlives its creation: it is unlinked at once, so it is gone with the last
process that holds it.
"""
import errno
import mmap
import os
import stat
from typing import Any

import numpy as np

from ascpipe.errors import SegmentError
from ascpipe.shm import syscalls

_NO_SEALS = -1  # not memory of the kernel's tmpfs
_PLAIN_TMPFS = 1  # what the kernel answers for files of /dev/shm: they cannot be sealed


def map(fd: int, size: int) -> "np.ndarray[Any, Any]":  # noqa: A001  (read as segment.map)
    """Map a received segment: uint8[size], shared, writable, not copied into forked children.

    The memory is unmapped when the array and all views of it are gone; ``fd`` stays open and the caller's.

    Raises:
        SegmentError: the descriptor is not a segment of ours of exactly ``size`` bytes.
    """
    check(fd, size)
    buffer = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    array = np.frombuffer(buffer, dtype=np.uint8)
    try:
        syscalls.advise(array.ctypes.data, size, syscalls.MADV_DONTFORK)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a kernel without it: a forked child then shares the memory, no more
            raise
    return array


def check(fd: int, size: int) -> None:
    """Refuse a descriptor that could fail us later: wrong size or owner, a named file, a size that may change.

    Raises:
        SegmentError
    """
    status = os.fstat(fd)
    what = "descriptor {}".format(fd)
    if not stat.S_ISREG(status.st_mode):
        raise SegmentError(what, "it is not memory (mode {:o})".format(status.st_mode))
    if status.st_size != size or size <= 0:
        raise SegmentError(what, "it has {} bytes, expected {}".format(status.st_size, size))
    if status.st_uid != os.geteuid():
        raise SegmentError(what, "it belongs to uid {}, we are {}".format(status.st_uid, os.geteuid()))
    if status.st_nlink != 0:
        raise SegmentError(what, "it still has a name in a file system")
    seals = syscalls.seals_of(fd)
    if seals not in (_NO_SEALS, _PLAIN_TMPFS) and seals & syscalls.SEALS != syscalls.SEALS:
        raise SegmentError(what, "its size is not sealed (seals {})".format(seals))
