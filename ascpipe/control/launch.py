"""Starts a daemon as a process of its own and waits until it is ready.

Used by ``ascpipe start`` and by a trainer that needs a private daemon.  A daemon that is slow has ``READY_TIMEOUT_S``,
one that a signal stops much less.
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
from ascpipe.control.child import BEGIN_S, Child, Stops, reap
from ascpipe.errors import NotStartedError, received

MODULE = "ascpipe.daemon.start"  #: what is run
READY_TIMEOUT_S = 30.0
STOPPED_S = 10.0  #: for one that a signal has stopped
_LAST_WORDS_S = 5.0  # between the last word of a daemon and its end
_LOOK_S = 0.5

_PASSED_ON = frozenset({
    "PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE",
    "VIRTUAL_ENV", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK",
    "OPENBLAS_NUM_THREADS",
})


class Launched(NamedTuple):
    """A daemon that is ready.

    Attributes:
        process: our child, to be waited for or left.
        pid: of the daemon.
        name: of the daemon.
    """

    process: "subprocess.Popen[bytes]"
    pid: int
    name: str


def child_environment(environment: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """What a daemon and its workers see of our environment: nothing but a list, LC_* and ASCPIPE_*."""
    environment = os.environ if environment is None else environment
    kept = {name: value for name, value in environment.items()
            if name in _PASSED_ON or name.startswith(("LC_", ENVIRONMENT_PREFIX))}
    if "PYTHONPATH" in kept:  # a relative folder would mean another one in the daemon
        parts = [part for part in kept["PYTHONPATH"].split(os.pathsep) if part]
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in parts)
    return kept


class Launching:
    """A daemon that was just started, in a session of its own; ``wait`` or ``end`` comes next.

    Args:
        name: of the daemon.
        private: it ends with the trainer that registers, and if that does not happen soon.
        options: settings from the command line.

    Raises:
        OSError: there can be no more processes or files.
    """

    def __init__(self, name: str, *, private: bool = False, options: Optional[Mapping[str, Any]] = None) -> None:
        self._name = name
        self._owner = os.getpid()
        self._read, write = os.pipe()
        self._environment = child_environment()
        # nothing there multiplies matrices, and a thread for each processor takes time to start
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
        """Whether it is our child, lives, and sees the environment that one would see that is started now."""
        return (self._owner == os.getpid() and self._environment == child_environment()
                and self._process.poll() is None)

    def wait(self, timeout_s: float = READY_TIMEOUT_S) -> Launched:
        """Return when it is ready.

        Raises:
            AscpipeError: why it refused to start, by the class of its code.
            NotStartedError: it died without a word, or took too long; it has ended.
        """
        told = self._told(timeout_s)
        process = self._process
        if process.is_late:
            told = {"text": "a signal has stopped it, or its program cannot be read: it had not begun after {:g} s, "
                            "and was killed".format(BEGIN_S)}
        if not told.get("ready"):
            reap(process, patience_s=0.0 if "text" in told else _LAST_WORDS_S)
            if "code" in told:
                raise received(told["code"], told["text"])
            raise NotStartedError("daemon {!r}".format(self._name), told.get("text") or self._how_it_ended())
        return Launched(process, told["pid"], self._name)

    def end(self) -> None:
        """End it, once it can leave without a trace; in a forked child nothing but the child's copies is closed."""
        if self._owner != os.getpid():
            os.close(self._read)
            return
        self._told(READY_TIMEOUT_S)
        self._process.terminate()
        reap(self._process)

    def _how_it_ended(self) -> str:
        log = names.run_dir(self._name).log
        return "exit code {}, {}".format(
            self._process.returncode, "see " + log if os.path.exists(log) else "and it has left no log")

    def _told(self, timeout_s: float) -> Dict[str, Any]:
        try:
            return _read_all(self._read, timeout_s, Stops(self._process.pid))
        finally:
            os.close(self._read)


def _read_all(fd: int, timeout_s: float, stops: Stops) -> Dict[str, Any]:
    """The JSON object that the daemon writes once it knows; ``{}`` if it ends before, a text if it is late."""
    deadline = time.monotonic() + timeout_s
    data = b""
    poll = select.poll()  # not select(): the number of a descriptor may be large
    poll.register(fd, select.POLLIN)
    while True:
        while not poll.poll(1000.0 * max(0.0, min(_LOOK_S, deadline - time.monotonic()))):
            if stops.seconds() >= STOPPED_S:
                return {"text": "a signal has stopped it for {:g} s while it began, and it was killed".format(
                    STOPPED_S)}
            if time.monotonic() >= deadline:
                return {"text": "not ready within {:g} s".format(timeout_s)}
        piece = os.read(fd, 65536)
        if not piece:
            break
        data += piece
    try:
        told = json.loads(data.decode())
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
