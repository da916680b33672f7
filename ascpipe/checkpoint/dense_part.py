"""TensorFlow's files of a checkpoint.

The files are in the directory of the checkpoint. Hard links to the files are in the parent directory, where TensorFlow
looks for the files. If the file system does not support hard links, the parent directory contains copies.
"""
import errno
import re
from typing import Dict, Optional

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.digests import file_digest
from ascpipe.checkpoint.manifest import SavedFile
from ascpipe.checkpoint.paths import DENSE

_SUFFIX = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})\Z")
_LINK = ".link"  # temporary name of a hard link or copy, in the directory of the checkpoint


def make_durable(sparse_fd: int, stem: str, *, needed: bool) -> Dict[str, SavedFile]:
    """Check TensorFlow's files of a checkpoint and make them durable. Return a dict from file name to size and digest.

    Raises:
        OSError: a system call failed, the files are missing although ``needed`` is true (ENOENT), or the directory
            contains another file (EINVAL).
    """
    with disk.closing(disk.open_directory(DENSE, sparse_fd)) as fd:
        names = disk.names(fd)
        foreign = [name for name in names if not is_dense_name(name, stem)]
        if foreign:
            raise OSError(errno.EINVAL, "not a file of a TensorFlow checkpoint", foreign[0])
        if needed and stem + ".index" not in names:
            raise OSError(errno.ENOENT, "TensorFlow's part was not written", stem + ".index")
        saved = {name: _made_durable(fd, name) for name in names}
        disk.sync(fd)
        return saved


def is_dense_name(name: str, stem: str) -> bool:
    """Return whether ``name`` is a name that TensorFlow gives to files of checkpoint ``stem``."""
    return name.startswith(stem) and _SUFFIX.match(name[len(stem):]) is not None


def variables_of(dense: Dict[str, SavedFile]) -> Dict[str, SavedFile]:
    """Return the files that contain variables, which are all files except the graph (``.meta``)."""
    return {name: saved for name, saved in dense.items() if not name.endswith(".meta")}


def _made_durable(fd: int, name: str) -> SavedFile:
    with disk.closing(disk.open_file(fd, name)) as file:
        disk.limit_mode(file)
        disk.sync(file)
        size = disk.stamp(file).size
        return SavedFile(size, file_digest(file, size))


def copy(sparse_fd: int, stem: str, dense: Dict[str, SavedFile], new_sparse_fd: int, new_stem: str) -> Optional[str]:
    """Copy the files of checkpoint ``stem`` to a checkpoint with another name.

    Returns:
        The name of the first file whose copy differs from ``dense``, or None.

    Raises:
        OSError: a system call failed.
    """
    with disk.closing(disk.open_directory(DENSE, sparse_fd)) as old, disk.closing(
            disk.open_directory(DENSE, new_sparse_fd)) as new:
        for name, saved in sorted(dense.items()):
            copied = new_stem + name[len(stem):]
            disk.copy_file(old, name, new, copied)
            if not _is_copy(new, copied, saved):
                return name
    return None


def publish(sparse_fd: int, dense: Dict[str, SavedFile], directory_fd: int) -> None:
    """Link TensorFlow's files into the directory ``directory_fd``. Copy the files if hard links are not supported.

    Existing files are replaced. Raise ``OSError`` if a system call fails.
    """
    if not dense:
        return
    with disk.closing(disk.open_directory(DENSE, sparse_fd)) as fd:
        for name in sorted(dense):
            disk.try_unlink(sparse_fd, _LINK)
            if not disk.try_link(fd, name, sparse_fd, _LINK):
                disk.copy_file(fd, name, sparse_fd, _LINK)
            disk.rename(sparse_fd, _LINK, name, directory_fd)
            disk.try_unlink(sparse_fd, _LINK)  # rename(2) does nothing if both names already refer to the same file
    disk.sync(directory_fd)


def withdraw(sparse_fd: int, dense: Dict[str, SavedFile], directory_fd: int, *, copies: bool) -> None:
    """Remove the links to TensorFlow's files from the directory ``directory_fd``. A file that has replaced a link is
    kept.

    Args:
        copies: also remove copies, which ``publish`` creates if the file system does not support hard links. A copy is
            recognized by its content. Use this option only if the checkpoint had its final name. Otherwise, files with
            the same content may belong to another checkpoint.
    """
    try:
        fd = disk.open_directory(DENSE, sparse_fd)
    except FileNotFoundError:
        return
    with disk.closing(fd):
        for name, saved in dense.items():
            there = disk.inode(directory_fd, name)
            if there is not None and (there == disk.inode(fd, name)
                                      or (copies and _is_copy(directory_fd, name, saved))):
                disk.unlink(directory_fd, name)


def _is_copy(directory_fd: int, name: str, saved: SavedFile) -> bool:
    try:
        file = disk.open_file(directory_fd, name)
    except OSError:
        return False
    with disk.closing(file):
        return disk.stamp(file).size == saved.size and file_digest(file, saved.size) == saved.digest
