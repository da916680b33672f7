"""Begins and ends child processes within limits, also where a signal stops one at the wrong instant."""
import contextlib
import errno
import os
import signal
import subprocess
import threading
import time
from typing import Any, Optional, Sequence

from ascpipe.control.proc_stat import read_stat

BEGIN_S = 3.0  #: for a child between its fork and the begin of its program
KILLED_S = 2.0  #: for one that was killed: one that waits in the kernel ends when that lets it
TOLD_TO_END_S = 20.0  #: for one that is told to end
_STOPPED_S = 1.0  # for one that is told to end, and is stopped
_LOOK_S = 0.2


class Child(subprocess.Popen):
    """As ``Popen``, which waits for ever for a child that is stopped before its program begins: this one kills it.

    Attributes:
        is_late: it was killed, as its program had not begun within ``BEGIN_S``.

    Raises:
        OSError: there can be no more processes, threads or files.
    """

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self.is_late = False
        has_begun = threading.Event()
        watcher = threading.Thread(target=self._kill_if_late, args=(has_begun,), daemon=True)
        try:
            watcher.start()
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, str(error)) from error
        try:
            super().__init__(command, **options)
        finally:
            has_begun.set()
            watcher.join()

    def _kill_if_late(self, has_begun: threading.Event) -> None:
        while not has_begun.wait(BEGIN_S):
            if getattr(self, "pid", None):  # a fork of much memory takes its time
                self.is_late = True
                self.kill()
                return


class Stops:
    """How long a process has been stopped by a signal, as far as it was looked at.

    Args:
        pid: of the process; any number that is none is never stopped.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._since: Optional[float] = None

    def seconds(self) -> float:
        """Since the first look that found it stopped; 0 while it is not."""
        stat = read_stat(self._pid)
        if stat is None or not stat.is_stopped:
            self._since = None
            return 0.0
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since


def reap(process: "subprocess.Popen[bytes]", patience_s: float = TOLD_TO_END_S) -> None:
    """Wait for a child that is to end by itself; it is killed if it does not, or soon if it is stopped."""
    stops = Stops(process.pid)
    end = time.monotonic() + patience_s
    while process.poll() is None:
        if time.monotonic() >= end or stops.seconds() >= _STOPPED_S:
            kill(process)
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(_LOOK_S, end - time.monotonic())))


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a child, and its process group if it leads one, and reap it."""
    if process.poll() is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)  # not reaped, so the number is still its own
    except (ProcessLookupError, PermissionError):
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_S)
