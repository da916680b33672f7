"""A program on a terminal of its own: a pseudo-terminal of the kernel, whose screens a test reads."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from typing import Any, Callable, Dict, List, Sequence, TypeVar

from tests.support.waiting import NeverHappenedError

Answer = TypeVar("Answer")

HOME = "\x1b[H"  # a screen that is drawn anew begins there
ALTERNATE, USUAL = "\x1b[?1049h", "\x1b[?1049l"  # the screen of a program, and that of the shell
SHOWN = "\x1b[?25h"  # the cursor
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Runs a program on a terminal; a context manager, which ends it.

    Args:
        command: of the program.
        columns, lines: size of the terminal.
        environment: of the program.

    Attributes:
        said: all that it has written so far.
    """

    def __init__(self, command: Sequence[str], columns: int, lines: int, environment: Dict[str, str]) -> None:
        self._ours, self._theirs = pty.openpty()  # theirs stays open: its settings are looked at afterwards
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = self.settings()
        self._process = subprocess.Popen(command, stdin=self._theirs, stdout=self._theirs, stderr=self._theirs,
                                         cwd="/", env={**environment, "TERM": "xterm"})
        self._written = b""

    @property
    def said(self) -> str:
        return self._written.decode("utf-8", "replace")

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *unused: Any) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def settings(self) -> List[Any]:
        """Of the terminal: what it echoes, how lines are read, and so on."""
        return termios.tcgetattr(self._theirs)

    def press(self, keys: str) -> None:
        """As a user does."""
        os.write(self._ours, keys.encode())

    def screens(self) -> List[str]:
        """Texts of the screens that were drawn, without colours; the last one may not be whole."""
        drawn = self.said.partition(ALTERNATE)[2].partition(USUAL)[0]
        texts = [_CODES.sub("", screen).replace("\r", "") for screen in drawn.split(HOME)[1:]]
        return [text for text in texts if text]

    def afterwards(self) -> str:
        """What it wrote to the usual screen, once it had left its own."""
        return _CODES.sub("", self.said.partition(USUAL)[2]).replace("\r", "")

    def wait_until(self, condition: Callable[[], Answer], timeout_s: float = 30.0) -> Answer:
        """Read what the program writes until a condition is true, and return what that answered."""
        deadline = time.monotonic() + timeout_s
        while True:
            answer = condition()
            if answer:
                return answer
            if time.monotonic() > deadline or self._has_ended():
                raise NeverHappenedError("not within {} s; the terminal shows\n{}".format(timeout_s, self.said))
            if select.select([self._ours], [], [], 0.05)[0]:
                self._written += os.read(self._ours, 65536)

    def ended(self) -> int:
        """The exit code of the program, which ends by itself."""
        self.wait_until(self._has_ended)
        return self._process.returncode

    def _has_ended(self) -> bool:
        """It has, and all that it wrote is read."""
        return self._process.poll() is not None and not select.select([self._ours], [], [], 0)[0]
