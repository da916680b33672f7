"""Programs that a case controls. Each program is a separate process, and every wait for a program has a time limit."""
import os
import select
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import IO, Any, Dict, Optional, Sequence, Type, TypeVar

LIMIT_S = 300.0  #: time limit for an answer and for the exit
_SHOWN_BYTES = 2000  #: maximum number of bytes of a program's output in an error message
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_Self = TypeVar("_Self", bound="Program")


class ProgramError(RuntimeError):
    """A program exited without an answer, or did not answer or exit in time. The program has been killed."""


class Program:
    """Process that receives lines and answers with lines.

    As a context manager it starts the process and waits for its exit. After an exception it kills the process. The
    process's standard error is printed after the exit, or is part of the error message. Every method raises
    ``ProgramError``.

    Attributes:
        limit_s: time limit for an answer and for the exit.
    """

    def __init__(self, command: Sequence[str], *, environment: Optional[Dict[str, str]] = None,
                 limit_s: float = LIMIT_S) -> None:
        self._command = list(command)
        self._environment = environment
        self.limit_s = limit_s
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._unread = b""

    def __enter__(self: _Self) -> _Self:
        self.start()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.end()
        else:
            self.kill()

    def start(self) -> None:
        """Start the program in the root folder of the bench. A previous process of the program must have exited."""
        self._unread = b""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as it runs)
        self._process = subprocess.Popen(self._command, cwd=_ROOT, env=self._environment, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._errors, bufsize=0)

    def tell(self, line: str) -> None:
        """Send a line to the program."""
        try:
            self._running().stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            raise self._ended() from None

    def answer(self) -> str:
        """Return the next line that the program prints, without the line break."""
        output = self._running().stdout
        deadline = time.monotonic() + self.limit_s
        while b"\n" not in self._unread:
            if not select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise self._failure("did not answer within {:g} s and was killed".format(self.limit_s))
            read = os.read(output.fileno(), 1 << 16)
            if not read:
                raise self._ended()
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def end(self) -> None:
        """Close the program's input and wait for its exit. Do nothing if the program does not run."""
        if self._process is None:
            return
        try:
            self._process.communicate(timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            raise self._failure("did not end within {:g} s and was killed".format(self.limit_s)) from None
        if self._process.returncode:
            raise self._ended()
        sys.stderr.write(self._printed())
        self._forget()

    def kill(self) -> None:
        """Kill the program. Do nothing if the program does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=self.limit_s)
            self._forget()

    def _running(self) -> Any:
        if self._process is None:
            raise ProgramError("{} does not run".format(self._text()))
        return self._process

    def _ended(self) -> ProgramError:
        """Return the error for a program that has exited or closed its output."""
        try:
            code = self._running().wait(self.limit_s)
        except subprocess.TimeoutExpired:
            return self._failure("closed its output and was killed")
        return self._failure("ended with {}".format(code))

    def _failure(self, what: str) -> ProgramError:
        """Kill the program, and return an error with its output."""
        process = self._running()
        process.kill()
        process.wait(self.limit_s)
        printed = (self._unread.decode(errors="replace") + self._printed()).strip()
        process.stdin.close()
        process.stdout.close()
        self._forget()
        return ProgramError("{} {}; it printed {}".format(
            self._text(), what, "\n" + printed if printed else "nothing"))

    def _printed(self) -> str:
        """Return the last part of the program's standard error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _SHOWN_BYTES))
        return self._errors.read().decode(errors="replace")

    def _forget(self) -> None:
        self._errors.close()
        self._process = None

    def _text(self) -> str:
        return " ".join(self._command)
