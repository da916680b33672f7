"""Class ``Launching``, which starts a daemon as a separate process and waits until the daemon is ready.

``ascpipe start`` and trainers with a private daemon use this module.
"""
import json
import os
import select
import subprocess
import sys
import time
from typing import Any, Dict, Mapping, NamedTuple, Optional

from ascpipe import names
from ascpipe.config import ENVIRONMENT_PREFIX, variables_for
from ascpipe.control.child import EXEC_TIMEOUT_S, Child, Stops, reap
from ascpipe.errors import NotStartedError, received

MODULE = "ascpipe.daemon.start"  #: module to run
READY_TIMEOUT_S = 30.0
STOPPED_S = 10.0  #: maximum time for which a signal may stop the daemon
_EXIT_AFTER_REPORT_S = 5.0  # maximum seconds between the report of the daemon and its exit
_LOOK_S = 0.5

_PASSED_ON = frozenset({
    "PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE",
    "VIRTUAL_ENV", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK",
    "OPENBLAS_NUM_THREADS",
})


class Launched(NamedTuple):
    """Daemon that is ready. The caller may wait until ``process`` exits, or leave the process running."""

    process: "subprocess.Popen[bytes]"
    pid: int
    name: str


def child_environment(environment: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """Return the environment for a daemon and its workers: the variables in a fixed list, and all LC_* and ASCPIPE_*
    variables.
    """
    environment = os.environ if environment is None else environment
    kept = {name: value for name, value in environment.items()
            if name in _PASSED_ON or name.startswith(("LC_", ENVIRONMENT_PREFIX))}
    if "PYTHONPATH" in kept:  # the daemon has another working directory
        parts = [part for part in kept["PYTHONPATH"].split(os.pathsep) if part]
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in parts)
    return kept


class Launching:
    """Daemon process that is starting, in its own process session. The caller must call ``wait`` or ``end``.

    Args:
        private: whether the daemon exits together with its trainer. A private daemon also exits if no trainer registers
            soon.
        options: settings from the command line.

    Raises:
        OSError: no more processes or files are available.
    """

    def __init__(self, name: str, *, private: bool = False, options: Optional[Mapping[str, Any]] = None) -> None:
        self._name = name
        self._owner = os.getpid()
        self._read, write = os.pipe()
        self._environment = child_environment()
        # the daemon multiplies no matrices, and starting these threads takes time
        environment = {**self._environment, "OPENBLAS_NUM_THREADS": "1", **variables_for(options or {})}
        try:
            self._process = Child(
                [sys.executable, "-m", MODULE, "--name", name, "--ready-fd", str(write), "--private-to",
                 str(self._owner if private else 0)],
                stdin=subprocess.DEVNULL, pass_fds=[write], start_new_session=True, cwd="/", env=environment)
        except BaseException:
            os.close(self._read)
            raise
        finally:
            os.close(write)

    def is_current(self) -> bool:
        """Return True if the daemon is a running child of this process and has the environment that a new daemon would
        get.
        """
        return (self._owner == os.getpid() and self._environment == child_environment()
                and self._process.poll() is None)

    def wait(self, timeout_s: float = READY_TIMEOUT_S) -> Launched:
        """Wait until the daemon is ready.

        Raises:
            AscpipeError: the daemon refused to start.
            NotStartedError: the daemon died without a report, or was not ready in time and was killed.
        """
        told = self._read_report(timeout_s)
        process = self._process
        if process.is_late:
            told = {"text": "its program did not start within {:g} s, because a signal stopped it or its files "
                            "cannot be read. It was killed".format(EXEC_TIMEOUT_S)}
        if not told.get("ready"):
            reap(process, patience_s=0.0 if "text" in told else _EXIT_AFTER_REPORT_S)
            if "code" in told:
                raise received(told["code"], told["text"])
            raise NotStartedError("daemon {!r}".format(self._name), told.get("text") or self._exit_text())
        return Launched(process, told["pid"], self._name)

    def end(self) -> None:
        """Wait until the daemon has started, then send SIGTERM, so that the daemon cleans up and exits.

        In a forked child, only close the child's copy of the pipe.
        """
        if self._owner != os.getpid():
            os.close(self._read)
            return
        self._read_report(READY_TIMEOUT_S)
        self._process.terminate()
        reap(self._process)

    def _exit_text(self) -> str:
        log = names.run_dir(self._name).log
        return "exit code {}, {}".format(
            self._process.returncode, "see " + log if os.path.exists(log) else "and it left no log")

    def _read_report(self, timeout_s: float) -> Dict[str, Any]:
        try:
            return _read_all(self._read, timeout_s, Stops(self._process.pid))
        finally:
            os.close(self._read)


def _read_all(fd: int, timeout_s: float, stops: Stops) -> Dict[str, Any]:
    """Return the JSON object that the daemon writes to a pipe, or ``{}`` if the daemon exits without writing.

    If the daemon is late, return a map whose ``text`` is an error message.
    """
    deadline = time.monotonic() + timeout_s
    data = b""
    poll = select.poll()  # not select(), which fails for large descriptors
    poll.register(fd, select.POLLIN)
    while True:
        while not poll.poll(1000.0 * max(0.0, min(_LOOK_S, deadline - time.monotonic()))):
            if stops.seconds() >= STOPPED_S:
                return {"text": "a signal stopped it for {:g} s during its start, and it was killed".format(
                    STOPPED_S)}
            if time.monotonic() >= deadline:
                return {"text": "it was not ready within {:g} s".format(timeout_s)}
        piece = os.read(fd, 65536)
        if not piece:
            break
        data += piece
    try:
        told = json.loads(data.decode())
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
