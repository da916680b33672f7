"""Programs that a case drives, each a process of its own; no wait for one of them is without a limit."""
import os
import select
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import IO, Any, Dict, Optional, Sequence, Type, TypeVar

LIMIT_S = 300.0  #: of an answer, and of the end
_SHOWN_BYTES = 2000  #: the last ones of what a program printed
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_Self = TypeVar("_Self", bound="Program")


class ProgramError(RuntimeError):
    """A program ended without an answer, or gave none in time, or did not end: it has been killed."""


class Program:
    """A process that is told lines and answers with lines.

    A context manager starts it and waits for its end; after an exception it kills it. What it has printed on standard
    error is printed when it has ended, or is part of the error. Every method raises ``ProgramError``.

    Attributes:
        limit_s: what an answer, and the end, may take.
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
        """Start it, in the folder of the bench; one that runs must have ended."""
        self._unread = b""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as it runs)
        self._process = subprocess.Popen(self._command, cwd=_ROOT, env=self._environment, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._errors, bufsize=0)

    def tell(self, line: str) -> None:
        """Give it a line."""
        try:
            self._running().stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            raise self._ended() from None

    def answer(self) -> str:
        """The next line that it prints, without its end."""
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
        """Close its input and wait for its end; nothing if it does not run."""
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
        """End it at once; nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=self.limit_s)
            self._forget()

    def _running(self) -> Any:
        if self._process is None:
            raise ProgramError("{} does not run".format(self._text()))
        return self._process

    def _ended(self) -> ProgramError:
        """It has closed its output, or ended: the error that says so."""
        try:
            code = self._running().wait(self.limit_s)
        except subprocess.TimeoutExpired:
            return self._failure("closed its output and was killed")
        return self._failure("ended with {}".format(code))

    def _failure(self, what: str) -> ProgramError:
        """Kill it; the error, with what it printed."""
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
        """The end of what stands in its standard error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _SHOWN_BYTES))
        return self._errors.read().decode(errors="replace")

    def _forget(self) -> None:
        self._errors.close()
        self._process = None

    def _text(self) -> str:
        return " ".join(self._command)
