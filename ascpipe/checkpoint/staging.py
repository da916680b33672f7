"""Directories of unfinished saves and removals, and clean-up after crashed processes.

The name of such a directory starts with ``PREFIX``. The directory contains a marker file, which the writing process
keeps locked. A clean-up removes only directories that this user owns, that have such a name, and whose marker is not
locked.
"""
import contextlib
import errno
import logging
import secrets
from typing import Dict, Optional

from ascpipe.checkpoint import dense_part, disk
from ascpipe.checkpoint.manifest import MAX_BYTES, SavedFile, decoded_pair
from ascpipe.checkpoint.paths import MARKER, PAIR, Place, stem_of

PREFIX = ".tmp-ascpipe-"

_MARK = b"This directory belongs to ascpipe. A save removes it if it was left behind.\n"
_ATTEMPTS = 10
_log = logging.getLogger(__name__)


class Staging:
    """Directory in which a checkpoint is written.

    Attributes:
        name: name in its parent directory.
        fd: descriptor of the directory.
    """

    def __init__(self, directory_fd: int) -> None:
        """Create the directory with a locked marker. Raise ``OSError`` if a system call fails."""
        for _ in range(_ATTEMPTS):
            self.name = new_name()
            self.fd = disk.make_directory(directory_fd, self.name)
            try:
                self._marker = _marked(self.fd)
            except BaseException:
                disk.close(self.fd)
                remove_if_possible(directory_fd, self.name)
                raise
            if self._marker is not None:
                return
            disk.close(self.fd)
        raise OSError(errno.EBUSY, "another save treats this directory as left behind", self.name)

    def sync_marker(self) -> None:
        """Make the marker durable before large files are written. Raise ``OSError`` if a system call fails.

        This call is separate because training waits for ``__init__`` during a background save.
        """
        if self._marker is not None:
            disk.sync(self._marker)

    def close(self) -> None:
        """Close the descriptors, which releases the lock."""
        if self._marker is not None:
            disk.close(self._marker)
        disk.close(self.fd)


def _marked(fd: int) -> Optional[int]:
    """Create and lock the marker of a new directory.

    Return None if another save is removing the directory, which can happen before the marker is locked.
    """
    try:
        with disk.closing(disk.create_file(fd, MARKER)) as marker:
            disk.write_all(marker, _MARK)
        return _locked_marker(fd)
    except FileNotFoundError:
        return None


def _locked_marker(fd: int) -> Optional[int]:
    """Lock the marker of a directory. Return the marker's descriptor, or None if another process holds the lock.

    Raises:
        OSError: the marker is missing.
    """
    marker = disk.open_file(fd, MARKER, writing=True)
    try:
        if disk.try_lock(marker):
            return marker
    except OSError:
        # The file system does not support locks. ``_is_dead`` is False for such directories, since their writers may be
        # alive.
        return marker
    disk.close(marker)
    return None


def new_name() -> str:
    """Return a new unique name for a directory of a save or removal."""
    return PREFIX + secrets.token_hex(8)


def discard(directory_fd: int, name: str, *, copies: bool = False) -> None:
    """Remove the directory of a save or checkpoint. Also remove the links to TensorFlow's files from ``directory_fd``.

    Args:
        copies: see ``dense_part.withdraw``.

    Raises:
        OSError: a system call failed, or another process writes or removes the directory (EBUSY).
    """
    with contextlib.ExitStack() as opened:
        fd = opened.enter_context(disk.closing(disk.open_directory(name, directory_fd)))
        if disk.is_there(fd, MARKER):
            marker = _locked_marker(fd)
            if marker is None:
                raise OSError(errno.EBUSY, "another process writes or removes it", name)
            opened.enter_context(disk.closing(marker))
        dense_part.withdraw(fd, _dense_of(fd), directory_fd, copies=copies)
        disk.remove_tree(directory_fd, name, last=MARKER)


def _dense_of(fd: int) -> Dict[str, SavedFile]:
    try:
        return decoded_pair(disk.read_file(fd, PAIR, MAX_BYTES)).dense
    except (OSError, ValueError, TypeError):
        return {}  # the checkpoint is incomplete, so there are no hard links


def remove_if_possible(directory_fd: int, name: str) -> bool:
    """Call ``discard``. If the directory cannot be removed, log the error and return False; the next save tries again.
    """
    try:
        discard(directory_fd, name)
    except OSError as error:
        _log.warning("%s was not removed (%s); the next save into its directory will try again", name, error)
        return False
    return True


def sweep(directory_fd: int) -> None:
    """Remove the remains of crashed saves and removals, but no files of live processes or other programs.

    A save may have crashed after it displaced a checkpoint and before it renamed the new checkpoint. In this case, the
    displaced checkpoint gets its old name again.
    """
    for name in disk.names(directory_fd):
        stem = stem_of(name)
        if name.startswith(PREFIX):
            _sweep_one(directory_fd, name)
        elif stem is not None and name.startswith("."):
            _give_back(directory_fd, name, Place("", "", stem).sparse)


def _give_back(directory_fd: int, name: str, place: str) -> None:
    if disk.is_there(directory_fd, place):
        _sweep_one(directory_fd, name)
    else:
        disk.rename(directory_fd, name, place)
        disk.sync(directory_fd)


def _sweep_one(directory_fd: int, name: str) -> None:
    try:
        if disk.try_remove_empty(directory_fd, name):
            return
        fd = disk.open_directory(name, directory_fd)
    except OSError:
        return  # another process has just removed the directory, or the name is a symbolic link or a file
    with disk.closing(fd):
        is_dead = disk.is_mine(fd) and _is_dead(fd)
    if is_dead and remove_if_possible(directory_fd, name):
        _log.info("removed %s, which an unfinished save had left", name)


def _is_dead(fd: int) -> bool:
    """Return whether a directory has a marker that no process has locked."""
    try:
        with disk.closing(disk.open_file(fd, MARKER, writing=True)) as marker:
            return disk.try_lock(marker)
    except OSError:
        return False
