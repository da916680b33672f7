"""Class ``OwnedRunDir``, the locked run directory of a daemon, and functions that remove the files of dead daemons."""
import contextlib
import datetime
import json
import logging
import os
import stat
from typing import Any, Dict, List, Tuple

from ascpipe import names
from ascpipe.control import lock
from ascpipe.daemon import kept_logs
from ascpipe.directories import refusing
from ascpipe.errors import AlreadyRunsError, AscpipeError, DaemonError, DaemonStoppedError, RunDirError
from ascpipe.names import RunDir
from ascpipe.shm import segment

_log = logging.getLogger("ascpipe.daemon")


class OwnedRunDir:
    """Run directory that the daemon keeps locked until ``leave``. Other programs may remove files from the directory.

    Attributes:
        run: paths of the run directory.
        swept: descriptions of the removed files of dead daemons, for the log.
        killed: PID of the previous daemon of this name if it did not remove its files, otherwise None.

    Raises:
        AlreadyRunsError: a daemon of this name is running. Nothing was changed.
        RunDirError: the directory cannot be created, or other users can change it or its files.
        DirectoryFullError: the file system is full.
        NameRefusedError, EndpointTooLongError: the name is invalid or too long.
    """

    def __init__(self, name: str) -> None:
        self.run = names.run_dir(name)
        self._failed = False
        self.killed: Any = None
        with refusing(self.run.path):
            names.make_private_dir(names.base_dir())
            self._lock_fd = _lock(self.run)
            self._sockets: Dict[str, Tuple[int, int]] = {}  # path -> device and inode
            self._take(name)

    def _take(self, name: str) -> None:
        """Remove old files from the run directory, and write the owner file. Release the lock on failure."""
        try:
            if lock.is_listening(self.run.lifeline):  # a running daemon whose lock file was removed
                raise _already_runs(self.run)
            if os.path.lexists(self.run.owner):
                self.killed = lock.owner_of(self.run)["pid"]
            self.swept = sweep_dead_runs(name) + ["shared memory " + left for left in _sweep_shm()]
            for path in (self.run.control, self.run.lifeline):
                _remove_stale_socket(path, self.swept)
            _write_owner(self.run)
        except BaseException:
            os.close(self._lock_fd)
            raise

    def remember_sockets(self) -> None:
        """Store the identities of the sockets, so that ``lost`` can detect replaced sockets."""
        self._sockets = {path: _identity(path) for path in (self.run.control, self.run.lifeline)}

    def lost(self) -> str:
        """Return the path of a removed or replaced file, or an empty string if no file was removed or replaced."""
        if not lock.is_current(self._lock_fd, self.run):
            return self.run.lock
        return next((path for path, identity in self._sockets.items() if _identity(path) != identity), "")

    def touch_files(self) -> None:
        """Touch the daemon's files, because cleaners remove temporary files that are not touched for days."""
        for path in (self.run.lock, self.run.owner, *self._sockets):
            with contextlib.suppress(OSError):
                os.utime(path, follow_symlinks=False)

    def session_failed(self, error: AscpipeError) -> str:
        """Record that a session has failed, so that ``leave`` keeps the logs of a private daemon.

        Returns:
            The directory that will contain the logs, or an empty string if no logs are kept.
        """
        if isinstance(error, DaemonStoppedError):
            return ""
        if not names.is_private_name(self.run.name):
            return self.run.path
        try:
            kept_logs.make_base_dir()
        except DaemonError as refused:
            _log.warning("logs of failed sessions cannot be kept: %s", refused)
            return ""
        self._failed = True
        return kept_logs.folder_of(self.run.name)

    def leave(self, *, keep_log: bool) -> None:
        """Remove the daemon's files and release the lock. Files are not removed if the lock file was replaced.

        Args:
            keep_log: whether to keep the log and the directory.
        """
        if lock.is_current(self._lock_fd, self.run):
            if self._failed:
                _keep_logs(self.run)
            _remove_files(self.run, keep_log=keep_log)
        os.close(self._lock_fd)


def sweep_dead_runs(own_name: str) -> List[str]:
    """Remove sockets and owner files of this user's dead daemons, and the directories of dead private daemons.

    The logs of private daemons are kept, because these daemons were killed or failed to start.

    A file is removed only if all of these conditions are true:

    - A daemon has created the file.
    - This process holds the lock.
    - Other users cannot access the directory.
    """
    swept = []
    for run in dead_runs():
        fd = lock.try_acquire(run) if run.name != own_name else None
        if fd is None:
            continue
        try:
            if names.is_private_name(run.name):
                _keep_logs(run)
            _remove_files(run, keep_log=not names.is_private_name(run.name))
            swept.append("files of the dead daemon {!r}".format(run.name))
        except OSError as error:
            _log.warning("cannot sweep %s: %s", run.path, error)
        finally:
            os.close(fd)
    return swept


def remove_dead_runs(*, dry_run: bool) -> List[str]:
    """Remove the run directories of dead daemons, and return the paths of the directories. With ``dry_run``, only
    return the paths.

    The logs of named daemons are removed. The logs of private daemons are kept elsewhere.
    """
    removed = []
    for run in map(RunDir, names.known_names()):
        try:
            names.check_private_dir(run.path)
        except (OSError, RunDirError):
            continue
        if lock.is_held(run) or lock.is_listening(run.lifeline) or not run.files():
            continue
        if not dry_run:
            fd = lock.try_acquire(run)
            if fd is None:
                continue
            try:
                if names.is_private_name(run.name):
                    _keep_logs(run)
                _remove_files(run, keep_log=False)
            finally:
                os.close(fd)
        removed.append(run.path)
    return removed


def dead_runs() -> List[RunDir]:
    """Return the run directories in which dead daemons left files other than logs. The directory that contains the run
    directories must exist.
    """
    return [run for run in map(RunDir, sorted(os.listdir(names.base_dir()))) if _is_dead(run)]


def _keep_logs(run: RunDir) -> None:
    try:
        kept_logs.keep(run)
    except (DaemonError, OSError) as error:
        _log.warning("logs of %s cannot be kept: %s", run.name, error)


def _remove_files(run: RunDir, *, keep_log: bool) -> None:
    """Remove the daemon's files, and then the directory if no other files are left."""
    for name in run.files():
        if not (keep_log and name.endswith(".log")):
            os.unlink(os.path.join(run.path, name))
    with contextlib.suppress(OSError):
        os.rmdir(run.path)


def _is_dead(run: RunDir) -> bool:
    """Return True if no daemon uses this run directory. Return False for a named daemon's directory without a lock
    file.
    """
    try:
        names.check_private_dir(run.path)
        if not (names.is_private_name(run.name) and not os.path.lexists(run.lock)
                or stat.S_ISREG(os.lstat(run.lock).st_mode)):
            return False
        return not lock.is_held(run) and not lock.is_listening(run.lifeline)
    except (OSError, RunDirError):
        return False


def _lock(run: RunDir) -> int:
    for _ in range(100):  # another daemon's sweep may remove the directory in between
        names.make_private_dir(run.path)
        try:
            fd = lock.try_acquire(run)
        except FileNotFoundError:
            continue
        if fd is not None:
            return fd
        raise _already_runs(run)
    raise RunDirError(run.path, "it was removed repeatedly")


def _already_runs(run: RunDir) -> AlreadyRunsError:
    owner = lock.owner_of(run)
    return AlreadyRunsError(run.name, owner["pid"], owner["uid"], owner["started"], run.path)


def _identity(path: str) -> Tuple[int, int]:
    try:
        status = os.lstat(path)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def _sweep_shm() -> List[str]:
    try:
        return segment.sweep()
    except OSError:
        return []  # there is no /dev/shm, so no process can have left files there


def _remove_stale_socket(path: str, swept: List[str]) -> None:
    """Remove a stale socket. The caller holds the lock. Raise RunDirError if the file is not a socket of this user."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
        raise RunDirError(path, "it is not a socket of ascpipe")
    os.unlink(path)
    swept.append("socket " + path)


def _write_owner(run: RunDir) -> None:
    owner = {"name": run.name, "pid": os.getpid(), "uid": os.geteuid(),
             "started": datetime.datetime.now().astimezone().isoformat(timespec="seconds")}
    fd = os.open(run.owner, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump(owner, file)
