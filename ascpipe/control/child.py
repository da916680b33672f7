"""Functions that start and end child processes within time limits.

The limits hold even if a signal stops a child before it executes its program.
"""
import contextlib
import errno
import os
import signal
import subprocess
import threading
import time
from typing import Any, Optional, Sequence

from ascpipe.control.proc_stat import read_stat

EXEC_TIMEOUT_S = 3.0  #: limit between fork and exec
KILLED_S = 2.0  #: maximum wait for the exit of a killed child; a child that is blocked in the kernel exits later
EXIT_TIMEOUT_S = 20.0  #: maximum wait for the exit of a child that was asked to exit
_STOPPED_S = 1.0  # maximum wait if a signal has stopped this child
_LOOK_S = 0.2


class Child(subprocess.Popen):
    """``Popen`` that kills the child if it does not execute its program in time. A plain ``Popen`` would wait forever
    for such a child.

    Attributes:
        is_late: whether the child was killed because it did not execute its program within ``EXEC_TIMEOUT_S``.

    Raises:
        OSError: no more processes, threads or files are available.
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
        while not has_begun.wait(EXEC_TIMEOUT_S):
            if getattr(self, "pid", None):  # without a PID, the fork of a large process is not finished yet
                self.is_late = True
                self.kill()
                return


class Stops:
    """Timer that measures how long process ``pid`` has been in the state "stopped by a signal"."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._since: Optional[float] = None

    def seconds(self) -> float:
        """Return the seconds since this method first found that the process is stopped.

        Return 0 if the process is not stopped or does not exist.
        """
        stat = read_stat(self._pid)
        if stat is None or not stat.is_stopped:
            self._since = None
            return 0.0
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since


def reap(process: "subprocess.Popen[bytes]", patience_s: float = EXIT_TIMEOUT_S) -> None:
    """Wait until a child exits. Kill the child after ``patience_s``, or earlier if a signal has stopped the child."""
    stops = Stops(process.pid)
    end = time.monotonic() + patience_s
    while process.poll() is None:
        if time.monotonic() >= end or stops.seconds() >= _STOPPED_S:
            kill(process)
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(_LOOK_S, end - time.monotonic())))


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill and reap a child. If the child leads a process group, kill the group."""
    if process.poll() is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)  # the PID cannot be reused before the child is reaped
    except (ProcessLookupError, PermissionError):
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_S)
