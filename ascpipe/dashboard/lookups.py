"""Class ``Lookups``, which runs commands such as ``ascpipe hotkeys`` for the dashboard, one at a time.

The commands read data that would take the server too much time or memory: the keys of a table, recorded spans, the
files of a checkpoint. A command runs at the lowest priority. Its output is kept for some seconds, so additional viewers
cause no additional commands.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import IO, Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ascpipe.control.child import Child, reap

OUTPUT_BYTES = 4 << 20  #: larger outputs are errors
LIMIT_S = 30.0  #: maximum duration of a command
MOST_WAITING = 8  #: further commands are refused
MOST_KEPT = 8  #: maximum number of outputs; older outputs are dropped
LOOK_S = 0.1  #: seconds between two checks of a running command
OUTPUT = "{output}"  #: in a command: the path of the file that becomes the output
_ERROR_BYTES = 2000

Key = Tuple[str, ...]


class Output(NamedTuple):
    """JSON output of a command, or a JSON object with the field ``error``. ``at`` is the time at which the output was
    received."""

    text: bytes
    at: float


class _Running(NamedTuple):
    key: Key
    process: "subprocess.Popen[bytes]"
    output: IO[bytes]
    errors: IO[bytes]
    began: float


class Lookups:
    """Queue of ``ascpipe`` commands, and the last output of each command.

    Args:
        clock: function that returns seconds.
        command: beginning of each command.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic,
                 command: Sequence[str] = (sys.executable, "-m", "ascpipe")) -> None:
        self._clock = clock
        self._command = list(command)
        self._waiting: Deque[Key] = collections.deque()
        self._running: Optional[_Running] = None
        self._kept: Dict[Key, Output] = {}

    def output(self, arguments: Sequence[str], fresh_s: float) -> Optional[Output]:
        """Return the output of a command. If the output is not available, add the command to the queue and return None.

        Args:
            arguments: arguments of ``ascpipe``. The command prints JSON, or writes it to the path ``OUTPUT``.
            fresh_s: maximum age of the output in seconds.
        """
        key = tuple(arguments)
        found = self._kept.get(key)
        if found is not None and self._clock() - found.at < fresh_s:
            return found
        if key not in self._waiting and (self._running is None or self._running.key != key):
            if len(self._waiting) >= MOST_WAITING:
                return Output(_error("too many requests at the same time; try again later"), self._clock())
            self._waiting.append(key)
        return None

    def kept(self, arguments: Sequence[str]) -> Optional[Output]:
        """Return the last output of a command regardless of its age, or None if there is no output."""
        return self._kept.get(tuple(arguments))

    def look(self) -> None:
        """Start the next command and take the output of a finished command. The method does not wait."""
        running = self._running
        if running is not None and running.process.poll() is not None:
            self._keep(running, self._text_of(running))
        elif running is not None and self._clock() - running.began > LIMIT_S:
            reap(running.process, 0.0)
            self._keep(running, _error("the command took longer than {:g} s and was ended".format(LIMIT_S)))
        if self._running is None and self._waiting:
            self._start(self._waiting.popleft())

    def wait_s(self) -> Optional[float]:
        """Return the seconds until ``look`` must be called, or None if no command is queued or running."""
        return LOOK_S if self._running is not None or self._waiting else None

    def close(self) -> None:
        """End a running command."""
        self._waiting.clear()
        if self._running is not None:
            reap(self._running.process, 0.0)
            self._keep(self._running, b"")

    def _start(self, key: Key) -> None:
        output = tempfile.TemporaryFile()  # noqa: SIM115  (`_keep` closes both files)
        errors = tempfile.TemporaryFile()  # noqa: SIM115
        path = "/proc/self/fd/{}".format(output.fileno())
        to_file = OUTPUT in key
        try:
            process = Child(
                ["nice", "-n", "19", *self._command, *(path if part == OUTPUT else part for part in key)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if to_file else output, stderr=errors,
                pass_fds=[output.fileno()], cwd="/")
        except OSError as error:
            output.close()
            errors.close()
            self._kept[key] = Output(_error(str(error)), self._clock())
            return
        self._running = _Running(key, process, output, errors, self._clock())

    def _text_of(self, running: _Running) -> bytes:
        text = _content(running.output, OUTPUT_BYTES + 1)
        if len(text) > OUTPUT_BYTES:
            return _error("the output is larger than {} bytes".format(OUTPUT_BYTES))
        if not text.strip():  # a command that finds damage prints JSON and has another exit code
            told = _content(running.errors, _ERROR_BYTES).decode("utf-8", "replace").strip().splitlines()
            return _error(told[-1] if told else "the command exited with {}".format(running.process.returncode))
        return text

    def _keep(self, running: _Running, text: bytes) -> None:
        running.output.close()
        running.errors.close()
        self._running = None
        self._kept.pop(running.key, None)
        self._kept[running.key] = Output(text, self._clock())
        for old in list(self._kept)[:-MOST_KEPT]:
            del self._kept[old]


def _content(file: IO[bytes], most: int) -> bytes:
    return os.pread(file.fileno(), most, 0)


def _error(text: str) -> bytes:
    return json.dumps({"error": text}).encode()


def arguments_of_timeline(names: Sequence[str], seconds: float) -> List[str]:
    """Return the arguments of ``ascpipe timeline`` that write the spans of these daemons in the last ``seconds`` s."""
    return ["timeline", *(word for name in names for word in ("--name", name)), "--last", "{:g}".format(seconds),
            "--output", OUTPUT]
