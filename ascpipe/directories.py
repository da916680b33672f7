"""Functions for directories that only this user and root can change, and errors for unusable directories."""
import contextlib
import errno
import os
import stat
from typing import Iterator

from ascpipe.errors import DaemonError, DirectoryFullError, RunDirError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})  #: errnos if the file system has no space for bytes or files

_MIB = 1 << 20


def cache_dir(setting: str) -> str:
    """Return the cache directory: the first non-empty value of ``setting``, $ASCPIPE_CACHE_DIR and ``user_cache()``."""
    given = setting or os.environ.get("ASCPIPE_CACHE_DIR", "")
    return os.path.abspath(given) if given else user_cache()


def user_cache() -> str:
    """Return the default cache directory of this user. The default is ``~/.cache/ascpipe`` unless XDG_CACHE_HOME is
    set.
    """
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(cache if os.path.isabs(cache) else os.path.expanduser("~/.cache"), "ascpipe")


def user_state() -> str:
    """Return the state directory of this user. The directory is ``~/.local/state/ascpipe`` unless XDG_STATE_HOME is
    set.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    return os.path.join(state if os.path.isabs(state) else os.path.expanduser("~/.local/state"), "ascpipe")


def make_safe_dir(path: str) -> str:
    """Create a directory with mode 0700, or check that only this user and root can change an existing directory.

    The directory and all its parents must belong to this user or root. Other users may have write permission
    only for sticky parents such as /tmp, in which they cannot replace entries of this user.

    Returns:
        The path without symbolic links, so that no other user can redirect it later.

    Raises:
        RunDirError: another user can change a folder of the path. Nothing was created in that folder.
        DirectoryFullError: the file system is full.
    """
    real = os.path.realpath(path)
    owners = {0, os.geteuid(), os.stat("/").st_uid}  # in a user namespace, root may have another number
    folder = "/"
    for part in real.split("/"):
        folder = os.path.join(folder, part)
        with refusing(folder):
            if not os.path.lexists(folder):
                with contextlib.suppress(FileExistsError):  # another process has created the folder
                    os.mkdir(folder, 0o700)
            status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode):
            raise RunDirError(folder, "it is not a directory")
        if status.st_uid not in owners:
            raise RunDirError(folder, "it belongs to uid {}, we are {}, and what lies in it would be run".format(
                status.st_uid, os.geteuid()))
        if status.st_mode & 0o022 and (folder == real or not status.st_mode & stat.S_ISVTX):
            raise RunDirError(folder, "others may write to it (mode {:o}), and what lies in it would be run".format(
                stat.S_IMODE(status.st_mode)))
    return real


@contextlib.contextmanager
def refusing(path: str) -> Iterator[None]:
    """Context manager that converts each ``OSError`` in its block to ``refused(path, error)``."""
    try:
        yield
    except OSError as error:
        raise refused(path, error) from error


def refused(path: str, error: OSError) -> DaemonError:
    """Return the error to raise if ``path`` cannot be changed. If the file system is full, the message contains the
    free space.
    """
    if isinstance(error.filename, str):
        path = error.filename
    reason = error.strerror or str(error)
    return DirectoryFullError(path, reason, room(path)) if error.errno in FULL else RunDirError(path, reason)


def room(path: str) -> str:
    """Return a sentence about the free space of the file system that contains a path. The path need not exist."""
    while not os.path.exists(path) and path not in ("", "/"):
        path = os.path.dirname(path)
    try:
        free = os.statvfs(path or "/")
    except OSError as error:
        return "how much is free there is not known ({})".format(error.strerror)
    return "{:.1f} of {:.1f} MiB and {} of {} files are free there".format(
        free.f_bavail * free.f_frsize / _MIB, free.f_blocks * free.f_frsize / _MIB, free.f_favail, free.f_files)
