"""Processes that a test begins by the dozen, to kill them or one after the other: forked from one that has imported
TensorFlow."""
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Optional, Sequence, Tuple

from tests.support.daemons import ROOT, is_alive
from tests.support.waiting import wait_until

ENDS_WITHIN_S = 60.0
RING_BYTES = 8 << 20


class ProgramFailedError(AssertionError):
    """A program did not end well; the text is what it printed."""


def environment(**settings: Any) -> Dict[str, str]:
    """Return the environment of a program: settings of ascpipe, as ``ring_frames=2``."""
    variables = dict(os.environ, PYTHONPATH=ROOT, PYTHONFAULTHANDLER="1", ASCPIPE_RING_BYTES=str(RING_BYTES))
    variables.update(("ASCPIPE_" + name.upper(), str(value)) for name, value in settings.items())
    return variables


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

    def terminate(self) -> None:
        """Send SIGTERM if it runs."""
        if self.runs():
            os.kill(self.pid, signal.SIGTERM)

    def end(self) -> None:
        """Kill it if it runs, and wait for it. Idempotent."""
        if self.runs():
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self, within_s: float = ENDS_WITHIN_S) -> int:
        """Its exit code, negative for a signal."""
        if self._code is None:
            wait_until(lambda: not is_alive(self.pid), within_s, "the program to end")
            self._code = self._server.read()
        return self._code


class ForkedProgram:
    """A program that runs, with the methods of `subprocess.Popen` that tests use.

    Attributes:
        pid: its process id.
        stdout: what it prints, to read from.
        returncode: exit code, negative for a signal; None before `communicate`.
    """

    def __init__(self, called: ForkedCall, stdout: IO[str]) -> None:
        self.pid, self.stdout, self._called = called.pid, stdout, called
        self.returncode: Optional[int] = None

    def send_signal(self, number: int) -> None:
        """Send a signal if it runs."""
        if self._called.runs():
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL if it runs."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = ENDS_WITHIN_S) -> int:
        """Wait at most ``timeout`` seconds for its end, and return its exit code."""
        self.returncode = self._called.wait(timeout)
        return self.returncode

    def communicate(self, timeout: float = ENDS_WITHIN_S) -> Tuple[str, str]:
        """Wait for its end; the rest of its standard output, and its standard error."""
        out = "" if self.stdout.closed else self.stdout.read()
        self.stdout.close()
        self.wait(timeout)
        return out, self._called.err


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
            env=environment(**settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.read()

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *error: Any) -> None:
        if self._called is not None and self._called.runs():
            os.kill(self._called.pid, signal.SIGKILL)
        self._process.communicate()  # no further line: it ends

    def call(self, function: str, *arguments: Any, **variables: str) -> ForkedCall:
        """Begin a call. The call before has ended; if a test has left it, it is killed."""
        out, err = self._paths("out", "err")
        return self._begin(function, arguments, variables, Path(os.devnull), out, err)

    def talk(self, function: str, *arguments: Any, err: str = os.devnull) -> Tuple[ForkedCall, IO[str], IO[str]]:
        """Begin a call, and return also its standard input, to write to, and its standard output, to read from.

        Args:
            function, arguments: of ``call``.
            err: file that receives what the call writes to standard error.
        """
        given, out = self._paths("in", "out")
        for pipe in (given, out):
            os.mkfifo(str(pipe))
        writer = os.open(str(given), os.O_RDWR)  # opening a pipe at one end waits for the process
        reader = os.open(str(out), os.O_RDONLY | os.O_NONBLOCK)
        called = self._begin(function, arguments, {}, given, out, Path(err))
        os.set_blocking(reader, True)
        return called, os.fdopen(writer, "w"), os.fdopen(reader)

    def begin(self, function: str, *arguments: Any) -> ForkedProgram:
        """Begin a call, whose standard output the test reads while it runs."""
        out, err = self._paths("out", "err")
        os.mkfifo(str(out))
        reader = os.open(str(out), os.O_RDONLY | os.O_NONBLOCK)
        called = self._begin(function, arguments, {}, Path(os.devnull), out, err)
        os.set_blocking(reader, True)
        return ForkedProgram(called, os.fdopen(reader))

    def _paths(self, *kinds: str) -> List[Path]:
        self._calls += 1
        return [self._folder / "{}.{}".format(self._calls, kind) for kind in kinds]

    def _begin(self, function: str, arguments: Sequence[Any], variables: Dict[str, str], given: Path, out: Path,
               err: Path) -> ForkedCall:
        if self._called is not None:
            self._called.end()
        line = json.dumps({"function": function, "arguments": arguments, "environment": variables, "in": str(given),
                           "out": str(out), "err": str(err)})
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        self._called = ForkedCall(self, self.read(), out, err)
        return self._called

    def read(self) -> int:
        line = self._process.stdout.readline()
        if not line:
            raise ProgramFailedError("the fork server has ended")
        return int(line)


_in_use: List[ForkServer] = []  #: the server that forks programs now, if there is one


@contextlib.contextmanager
def used(server: ForkServer) -> Iterator[None]:
    """Within it, `running_server` returns a server of `tests.support.programs.forked_ranks`."""
    _in_use.append(server)
    try:
        yield
    finally:
        _in_use.remove(server)


def running_server() -> Optional[ForkServer]:
    """Return the server that forks programs in place of executing them; None: they are executed."""
    return _in_use[-1] if _in_use else None


def python(arguments: Sequence[Any], folder: Any, variables: Dict[str, str], within_s: float) -> Tuple[int, str, str]:
    """Run ``python ARGUMENTS`` to its end: exit code, standard output and standard error.

    Args:
        arguments: ``-W ACTION`` or nothing, then a file, ``-m MODULE`` or ``-c TEXT``, and the arguments of the
            program.
        folder: its working directory.
        variables: its environment.
        within_s: time limit in seconds.
    """
    words, server = [str(word) for word in arguments], running_server()
    if server is not None:
        called = server.call("python", words, str(folder), variables)
        return called.wait(within_s), called.out, called.err
    run = subprocess.run([sys.executable, *words], env=variables, stdin=subprocess.DEVNULL, capture_output=True,
                         cwd=str(folder), text=True, timeout=within_s, check=False)
    return run.returncode, run.stdout, run.stderr
