"""Functions that create, check and map segments of shared memory.

The supervisor creates a segment, unlinks it immediately, and passes its descriptor to the other processes. The kernel
frees the segment when the last process that uses it exits.

All pages are allocated at creation, except growing parts (``growing_part``). So a lack of memory raises an error with
numbers, in ``create`` or earlier in ``memory.preflight``, and never causes a SIGBUS later.
"""
import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
from typing import Any, List, Optional

import numpy as np
import posix_ipc

from ascpipe.errors import OutOfSharedMemoryError, SegmentError
from ascpipe.shm import syscalls

SHM_DIR = "/dev/shm"  # noqa: S108  (the kernel's folder of POSIX shared memory, not a temporary file)

_NO_SEALS = -1  # result for a file that is not on a tmpfs
_PLAIN_TMPFS = 1  # F_GET_SEALS of files in /dev/shm is F_SEAL_SEAL, because these files cannot be sealed
_NAME = re.compile(r"ascpipe\.[0-9a-f]{32}")


def create(size: int, what: str, *, use_memfd: bool, present: Optional[int] = None) -> int:
    """Create a zeroed segment and return its descriptor.

    The caller must have called ``memory.preflight``. A memfd has no size limit, and the kernel kills a process that
    allocates more memory than the machine has.

    Args:
        size: bytes, more than 0.
        what: purpose of the memory, for the error message.
        use_memfd: result of ``memory.preflight``.
        present: number of bytes to allocate at the start of the segment. It defaults to all bytes.

    Raises:
        OutOfSharedMemoryError: there is too little memory, although the preflight succeeded.
    """
    fd = syscalls.memfd_create("ascpipe") if use_memfd else _open_unlinked()
    try:
        os.ftruncate(fd, size)
        fill(fd, 0, size if present is None else present, what)
        if use_memfd:
            syscalls.add_seals(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def fill(fd: int, offset: int, size: int, what: str) -> None:
    """Allocate memory for a part of a segment. Pages that were already allocated keep their content.

    Raises:
        OutOfSharedMemoryError: there is too little memory.
    """
    try:
        os.posix_fallocate(fd, offset, size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise
        raise OutOfSharedMemoryError(what, size, "the kernel says {}".format(os.strerror(error.errno))) from error


def _open_unlinked() -> int:
    name = "/ascpipe.{}".format(secrets.token_hex(16))
    try:
        memory = posix_ipc.SharedMemory(name, posix_ipc.O_CREX, mode=0o600)
    except posix_ipc.Error as error:
        raise SegmentError(name, "it cannot be created: {}".format(error)) from error
    with contextlib.suppress(posix_ipc.ExistentialError):  # a sweep has unlinked the segment; the descriptor is valid
        posix_ipc.unlink_shared_memory(name)
    fcntl.fcntl(memory.fd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    return int(memory.fd)


def sweep(shm_dir: str = SHM_DIR) -> List[str]:
    """Unlink the segments that dead processes of this user left behind. Return the names of these segments.

    Unlinking a segment while it is being created is harmless, because its name is not used again.
    """
    removed = []
    for name in sorted(os.listdir(shm_dir)):
        path = os.path.join(shm_dir, name)
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(path)
            if _NAME.fullmatch(name) and stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                os.unlink(path)
                removed.append(name)
    return removed


def map(fd: int, size: int) -> "np.ndarray[Any, Any]":  # noqa: A001  (read as segment.map)
    """Map a received segment as uint8[size]. The mapping is shared and writable, and forked children do not inherit it.

    The memory is unmapped when the array and all its views are deleted. The caller still owns ``fd``.

    Raises:
        SegmentError: ``check`` rejected the descriptor.
    """
    check(fd, size)
    mapping = _Mapping(syscalls.map_shared(fd, size), size)
    syscalls.advise(mapping.address, size, syscalls.MADV_DONTFORK)
    return np.array(mapping, copy=False)


class _Mapping:
    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self._size = size
        self._unmap = syscalls.unmap  # the module may be unloaded at interpreter exit
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (address, False)}

    def __del__(self) -> None:
        self._unmap(self.address, self._size)


def check(fd: int, size: int) -> None:
    """Check that a descriptor refers to a segment: a file that has the expected size, belongs to this user and has no
    name.

    The size of a memfd must be sealed.

    Raises:
        SegmentError: the descriptor is not a valid segment.
    """
    status = os.fstat(fd)
    what = "descriptor {}".format(fd)
    if not stat.S_ISREG(status.st_mode):
        raise SegmentError(what, "it is not memory (mode {:o})".format(status.st_mode))
    if status.st_size != size or size <= 0:
        raise SegmentError(what, "it has {} bytes, expected {}".format(status.st_size, size))
    if status.st_uid != os.geteuid():
        raise SegmentError(what, "it belongs to uid {}, but this process runs as uid "
                                 "{}".format(status.st_uid, os.geteuid()))
    if status.st_nlink != 0:
        raise SegmentError(what, "it still has a name in a file system")
    seals = syscalls.seals_of(fd)
    if seals not in (_NO_SEALS, _PLAIN_TMPFS) and seals & syscalls.SEALS != syscalls.SEALS:
        raise SegmentError(what, "its size is not sealed (seals {})".format(seals))
