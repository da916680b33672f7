"""Functions that make the system calls for saving, restoring and removing checkpoints.

Names are relative to directory descriptors, except in ``make_path``. A name that is a symbolic link is never followed,
except in ``make_path``. New files never overwrite existing files; ``rename`` replaces existing files. Failures raise
``OSError``.
"""
import concurrent.futures
import contextlib
import errno
import fcntl
import os
import stat
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, Union

from ascpipe.shm import syscalls

DIRECTORY_MODE = 0o750
FILE_MODE = 0o640

Bytes = Union[bytes, bytearray, memoryview]

IS_LINK = (errno.ELOOP, errno.ENOTDIR)  #: errnos if a symbolic link is opened as a file or a directory

_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_CANNOT_LINK = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)
_COPY_BYTES = 1 << 20
_SYNCS_AT_A_TIME = 8


class Stamp(NamedTuple):
    """Attributes that identify a file and change with its content. If the file changes, its stamp changes."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


def make_path(path: str) -> None:
    """Create a directory and its missing parents durably. Other processes may create them concurrently.

    Raises:
        NotADirectoryError: the path or one of its parents is a file.
        OSError: a directory cannot be created.
    """
    path = os.path.abspath(path)
    if os.path.isdir(path):
        return
    if os.path.lexists(path):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    above, name = os.path.split(path)
    make_path(above)
    with closing(os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, DIRECTORY_MODE, dir_fd=fd)
        sync(fd)


def open_directory(name: str, directory_fd: Optional[int] = None) -> int:
    """Open a directory and return its descriptor. For a symbolic link, raise ``OSError`` with errno ENOTDIR or ELOOP.
    """
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory_fd)


def make_directory(directory_fd: int, name: str) -> int:
    """Create a directory and return its descriptor. Remove the directory if it cannot be opened."""
    os.mkdir(name, DIRECTORY_MODE, dir_fd=directory_fd)
    try:
        return open_directory(name, directory_fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=directory_fd)
        raise


def make_or_open_directory(directory_fd: int, name: str) -> int:
    """Open a directory, and create it if it is missing. Other processes may create the directory concurrently."""
    try:
        os.mkdir(name, DIRECTORY_MODE, dir_fd=directory_fd)
    except FileExistsError:
        pass
    return open_directory(name, directory_fd)


def create_file(directory_fd: int, name: str, mode: int = FILE_MODE) -> int:
    """Create a new file and return a descriptor for reading and writing."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, mode, dir_fd=directory_fd)


def open_file(directory_fd: int, name: str, *, writing: bool = False) -> int:
    """Open a regular file and return its descriptor.

    Raise ``OSError`` if the name does not refer to a regular file. The errno of a symbolic link is ELOOP.
    """
    flags = os.O_RDWR if writing else os.O_RDONLY
    fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory_fd)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
    except BaseException:
        close(fd)
        raise
    return fd


def close(fd: int) -> None:
    """Call close(2)."""
    os.close(fd)


@contextlib.contextmanager
def closing(fd: int) -> Iterator[int]:
    """Context manager that yields a descriptor and closes the descriptor at the end of the block."""
    try:
        yield fd
    finally:
        close(fd)


def write_all(fd: int, content: Bytes) -> None:
    """Write all of ``content`` at the current position of the file."""
    rest = memoryview(content)
    while rest.nbytes:
        rest = rest[os.write(fd, rest):]


def write_at(fd: int, offset: int, content: Bytes) -> None:
    """Write all of ``content`` to the file, beginning at ``offset``."""
    rest = memoryview(content)
    while rest.nbytes:
        written = os.pwrite(fd, rest, offset)
        rest = rest[written:]
        offset += written


def write_file(directory_fd: int, name: str, content: Bytes) -> None:
    """Create a file with the given content, and make the file durable."""
    with closing(create_file(directory_fd, name)) as fd:
        write_all(fd, content)
        sync(fd)


def replace_file(directory_fd: int, name: str, content: Bytes) -> None:
    """Replace a file atomically and durably."""
    new = ".{}.new".format(name)
    try_unlink(directory_fd, new)  # a crashed process may have left this file
    write_file(directory_fd, new, content)
    rename(directory_fd, new, name)
    sync(directory_fd)


def read_into(fd: int, offset: int, out: Any) -> None:
    """Fill a buffer with the bytes of the file from ``offset``. Raise ``OSError`` (EIO) if the file ends before the
    buffer is full.
    """
    rest = memoryview(out).cast("B")
    while rest.nbytes:
        count = os.preadv(fd, [rest], offset)
        if count == 0:
            raise OSError(errno.EIO, "the file ends at byte {}".format(offset))
        rest = rest[count:]
        offset += count


def read_file(directory_fd: int, name: str, limit: int) -> bytes:
    """Return the content of a file. Raise ``OSError`` (EFBIG) if the file is longer than ``limit`` bytes."""
    with closing(open_file(directory_fd, name)) as fd:
        size = os.fstat(fd).st_size
        if size > limit:
            raise OSError(errno.EFBIG, "{} bytes, expected at most {}".format(size, limit), name)
        content = bytearray(size)
        read_into(fd, 0, content)
        return bytes(content)


def sync(fd: int) -> None:
    """Call fsync: make the content of a file, or the entries of a directory, durable."""
    os.fsync(fd)


def sync_all(fds: Sequence[int]) -> None:
    """Sync several files concurrently, so that the file system can commit many changes with one write.

    Raises:
        OSError: a sync failed. The error of the first such file is raised after all files were synced.
    """
    with concurrent.futures.ThreadPoolExecutor(_SYNCS_AT_A_TIME) as threads:
        waits = [threads.submit(sync, fd) for fd in fds]
    for wait in waits:
        wait.result()


def begin_sync(fd: int, start: int, end: int) -> None:
    """Start to write a range of bytes to the disk in the background. A later ``sync`` then takes less time."""
    if end > start:
        with contextlib.suppress(OSError):  # the call is only a hint; ``sync`` reports errors of the file
            os.posix_fadvise(fd, start, end - start, os.POSIX_FADV_DONTNEED)  # writes dirty pages, which stay cached


def stamp(fd: int) -> Stamp:
    """Return the current stamp of the file."""
    found = os.fstat(fd)
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def is_there(directory_fd: int, name: str) -> bool:
    """Return whether a directory contains the entry ``name``. A symbolic link is not followed."""
    return inode(directory_fd, name) is not None


def is_directory(directory_fd: int, name: str) -> bool:
    """Return whether a name refers to a directory. A symbolic link is not followed."""
    return stat.S_ISDIR(os.stat(name, dir_fd=directory_fd, follow_symlinks=False).st_mode)


def inode(directory_fd: int, name: str) -> Optional[int]:
    """Return the inode number of the entry ``name``, or None if there is no such entry. A symbolic link is not
    followed.
    """
    try:
        return os.stat(name, dir_fd=directory_fd, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return None


def is_mine(fd: int) -> bool:
    """Return whether the user of this process owns the file."""
    return os.fstat(fd).st_uid == os.geteuid()


def names(directory_fd: int) -> List[str]:
    """Return the sorted names in a directory."""
    return sorted(os.listdir(directory_fd))


def limit_mode(fd: int) -> None:
    """Remove the permissions of a file that are not in ``FILE_MODE``. Another program has created the file."""
    os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) & FILE_MODE)


def free_bytes(directory_fd: int) -> int:
    """Return the number of bytes that this user may allocate on the file system."""
    found = os.fstatvfs(directory_fd)
    return found.f_bavail * found.f_frsize


def rename(directory_fd: int, old: str, new: str, new_directory_fd: Optional[int] = None) -> None:
    """Rename a file or directory. If ``new_directory_fd`` is given, move the entry to that directory."""
    os.rename(old, new, src_dir_fd=directory_fd,
              dst_dir_fd=directory_fd if new_directory_fd is None else new_directory_fd)


def _try(unless: Sequence[int], call: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    """Make a system call. Return False if it fails with an errno in ``unless``; such a call has changed nothing."""
    try:
        call(*arguments, **named)
    except OSError as error:
        if error.errno in unless:
            return False
        raise
    return True


def try_exchange(directory_fd: int, one: str, other: str) -> bool:
    """Exchange two names atomically. Change nothing and return False if the file system cannot exchange names."""
    return _try(_CANNOT_EXCHANGE, syscalls.exchange_names, directory_fd, one, other)


def try_link(directory_fd: int, name: str, new_directory_fd: int, new_name: str) -> bool:
    """Create a hard link. Change nothing and return False if the file system cannot create the hard link."""
    return _try(_CANNOT_LINK, os.link, name, new_name, src_dir_fd=directory_fd, dst_dir_fd=new_directory_fd,
                follow_symlinks=False)


def copy_file(directory_fd: int, name: str, new_directory_fd: int, new_name: str) -> None:
    """Create a durable copy of a file under a new name."""
    with closing(open_file(directory_fd, name)) as source, closing(create_file(new_directory_fd, new_name)) as target:
        while True:
            content = os.read(source, _COPY_BYTES)
            if not content:
                break
            write_all(target, content)
        sync(target)


def unlink(directory_fd: int, name: str) -> None:
    """Remove a file or a symbolic link. The target of a symbolic link is not removed."""
    os.unlink(name, dir_fd=directory_fd)


def try_unlink(directory_fd: int, name: str) -> bool:
    """Remove a file or a symbolic link. Return False if the file does not exist."""
    return _try([errno.ENOENT], unlink, directory_fd, name)


def remove_tree(directory_fd: int, name: str, last: str = "") -> None:
    """Remove a directory tree without following symbolic links. In each directory, the name ``last`` is removed after
    all other names.
    """
    with closing(open_directory(name, directory_fd)) as fd:
        for child in sorted(names(fd), key=lambda child: child == last):
            if is_directory(fd, child):
                remove_tree(fd, child)
            else:
                unlink(fd, child)
    os.rmdir(name, dir_fd=directory_fd)


def try_remove_empty(directory_fd: int, name: str) -> bool:
    """Remove a directory if it is empty. Return whether it was removed."""
    return _try([errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT], os.rmdir, name, dir_fd=directory_fd)


def try_lock(fd: int) -> bool:
    """Lock a file until it is closed or the process exits. Return False if another process holds the lock.

    Raises:
        OSError: the file system does not support locks.
    """
    return _try([errno.EWOULDBLOCK], fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
