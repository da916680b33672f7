"""Processes that a test begins by the dozen, to kill them or one after the other: forked from one that has imported
TensorFlow."""
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

from tests.support.daemons import ROOT, is_alive
from tests.support.programs import running
from tests.support.waiting import wait_until

ENDS_WITHIN_S = 60.0


class ForkedCall:
    """A process that runs a function of a program; ``pid`` is also its process group."""

    def __init__(self, server: "ForkServer", pid: int, out: Path, err: Path) -> None:
        self.pid, self._server, self._out, self._err = pid, server, out, err
        self._code: Optional[int] = None

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def runs(self) -> bool:
        """False once it was waited for: its number may be another process's by now."""
        return self._code is None and is_alive(self.pid)

    def wait(self, within_s: float = ENDS_WITHIN_S) -> int:
        """Its exit code, negative for a signal."""
        if self._code is None:
            wait_until(lambda: not is_alive(self.pid), within_s, "the program to end")
            self._code = self._server.read()
        return self._code


class ForkServer:
    """A program that is imported; one call at a time. A context manager.

    Args:
        program: of ``tests/support/programs``.
        folder: for what the calls print.
        settings: of ascpipe.
    """

    def __init__(self, program: str, folder: Path, **settings: Any) -> None:
        self._folder, self._calls = folder, 0
        self._called: Optional[ForkedCall] = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.programs.fork_server", program], cwd=ROOT, universal_newlines=True,
            env=running.environment(**settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.read()

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *error: Any) -> None:
        if self._called is not None and self._called.runs():
            os.kill(self._called.pid, signal.SIGKILL)
        self._process.communicate()  # no further line: it ends

    def call(self, function: str, *arguments: Any, **environment: str) -> ForkedCall:
        """Begin a call; the one before has ended and was waited for."""
        self._calls += 1
        out, err = (self._folder / "{}.{}".format(self._calls, kind) for kind in ("out", "err"))
        line = json.dumps({"function": function, "arguments": arguments, "environment": environment, "out": str(out),
                           "err": str(err)})
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        self._called = ForkedCall(self, self.read(), out, err)
        return self._called

    def read(self) -> int:
        line = self._process.stdout.readline()
        if not line:
            raise running.ProgramFailedError("the fork server has ended")
        return int(line)
