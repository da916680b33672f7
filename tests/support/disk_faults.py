"""Injects faults at the door to the disk: the n-th system call fails, is short, or is the last of the process."""
import errno
import os
import signal

from ascpipe.checkpoint import disk

KILL, SHORT, SIGKILL = "kill", "short", "SIGKILL"

#: All but close, without which descriptors would stay open in the process of the tests.
_CALLS = {"open", "mkdir", "write", "preadv", "read", "fstat", "fsync", "stat", "listdir", "fchmod", "fstatvfs",
          "rename", "link", "unlink", "rmdir"}


class KilledError(BaseException):
    """The process is dead: every further call raises it too."""


class FaultyDisk:
    """Stands for ``os`` in ``ascpipe.checkpoint.disk``.

    Args:
        at: which call, from 1; 0: none.
        fault: KILL, SHORT, SIGKILL (to this process, before the call), or an errno.

    Attributes:
        calls: names of the calls so far, in order.
    """

    def __init__(self, at=0, fault=None):
        self.calls = []
        self._at, self._fault = at, fault
        self._dead = False

    def __getattr__(self, name):
        real = getattr(os, "fstat" if name == "fsync" else name)  # nothing waits for the disk
        return self._faulty(name, real) if name in _CALLS else real

    def _faulty(self, name, real):
        def call(*arguments, **options):
            if self._dead:
                raise KilledError
            self.calls.append(name)
            if len(self.calls) != self._at:
                return real(*arguments, **options)
            if self._fault == SIGKILL:
                os.kill(os.getpid(), signal.SIGKILL)
            if self._fault == KILL:
                self._dead = True
                raise KilledError
            if self._fault == SHORT:
                if name == "write":
                    return real(arguments[0], arguments[1][:max(1, len(arguments[1]) // 2)])
                return real(*arguments, **options)
            raise OSError(self._fault, os.strerror(self._fault), name)

        return call


FAULTS = (KILL, errno.ENOSPC, errno.EIO, SHORT)


def sync_by(sync, patch):
    """Let saves sync by a function, one file after the other, so that calls have the same numbers every time."""
    patch.setattr(disk, "sync", sync)
    patch.setattr(disk, "sync_all", lambda fds: [sync(fd) for fd in fds])
