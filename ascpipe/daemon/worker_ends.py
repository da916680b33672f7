"""Functions that find the cause of a worker's exit from the exit code, the log and the counters of the control group.
"""
import os
import re
import signal

from ascpipe.control.exec_worker import BROKEN_KERNELS
from ascpipe.daemon.worker_identity import Worker
from ascpipe.directories import room
from ascpipe.errors import DirectoryFullError
from ascpipe.names import RunDir
from ascpipe.shm import memory

_LOG_TAIL_BYTES = 1 << 16  # enough for a traceback through all imports
_EXCEPTION_LINE = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Warning)\b.*")


class WorkerEnds:
    """Class that finds the causes of worker exits. ``cache_dir`` is the directory of compiled kernels."""

    def __init__(self, run: RunDir, cache_dir: str) -> None:
        self._run = run
        self._cache_dir = cache_dir
        self._oom_kills = memory.oom_kills() or 0  # number of kills that were already reported

    def cause(self, worker: Worker, code: int) -> str:
        """Return the cause of a worker's exit. ``code`` is an exit code or a negative signal number."""
        if code < 0:
            name = signal.Signals(-code).name if -code in list(signal.Signals) else "signal {}".format(-code)
            return "killed by {}{}".format(name, self._oom() if -code == signal.SIGKILL else "")
        last = self._last_exception(worker)
        return "exit code {}{}".format(code, " ({})".format(last) if last else "")

    def _oom(self) -> str:
        """Return a clause for the error message if the OOM killer has killed a process of the control group since the
        last call.

        Otherwise, return an empty string.
        """
        before, self._oom_kills = self._oom_kills, memory.oom_kills() or 0
        return "" if self._oom_kills <= before else (
            " because memory ran out: the control group is at its limit, and the kernel has killed {} of its "
            "processes in total".format(self._oom_kills))

    def no_room_for_kernels(self, worker: Worker) -> DirectoryFullError:
        """Return the error of a worker that had no disk space for compiled kernels."""
        return DirectoryFullError(self._cache_dir, self._last_exception(worker) or "compiled kernels cannot be kept",
                                  room(self._cache_dir))

    def _last_exception(self, worker: Worker) -> str:
        """Return the last line of the worker's log that names an exception, or an empty string if there is no such
        line.
        """
        named = [line for line in self._log_tail(worker).splitlines() if _EXCEPTION_LINE.match(line)]
        return "".join(c for c in (named or [""])[-1][:300] if c.isprintable())

    def _log_tail(self, worker: Worker) -> str:
        try:
            with open(self._run.worker_log(str(worker)), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_TAIL_BYTES))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""


def ended_by_broken_kernels(code: int, loaded: bool = False) -> bool:
    """Return True if a process has probably ended because of damaged compiled kernels.

    A damaged kernel either crashes the process or causes an exception in numba. The process reports the
    exception by its exit code.

    Args:
        code: exit code, or negative signal number.
        loaded: whether the process had reported that it has loaded all its code.
    """
    return code == BROKEN_KERNELS or code < 0 and code != -signal.SIGKILL and not loaded
