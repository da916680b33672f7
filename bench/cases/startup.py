"""From the start of a program to the end of its first step, Python and TensorFlow included, against one without us.

``private``: the program starts its own daemon. ``named``: one runs already. Kernels are compiled and linked.
"""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from typing import Callable, Dict, Iterator, List

from bench.goals import OVER, Goal
from bench.harness import Case, Contenders, median

_MORE_S = 1.0  # than the program without us
_OURS, _PLAIN = "ascpipe", "tf.Variable"
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, contextlib.ExitStack() as stack:
        environment = dict(os.environ, XDG_RUNTIME_DIR=folder)
        environment.pop("ASCPIPE_NAME", None)
        if variant == "named":
            _ascpipe(environment, "start")
            stack.callback(_ascpipe, environment, "stop")
        parts: List[Dict[str, float]] = []
        with _Program("ascpipe", environment, parts) as ours, _Program("plain", environment, []) as plain:
            yield Contenders(1, {_OURS: ours.to_first_step, _PLAIN: plain.to_first_step},
                             {_OURS: ours.to_end, _PLAIN: plain.to_end}, notes=lambda: _medians(parts))


def _medians(parts: List[Dict[str, float]]) -> Dict[str, str]:
    return {name: "{:.2f} s".format(median([one[name] for one in parts])) for name in parts[0]}


def _ascpipe(environment: Dict[str, str], verb: str) -> None:
    subprocess.run([sys.executable, "-m", "ascpipe", verb, "--name", "default"], env=environment, check=True,
                   stdout=subprocess.DEVNULL)


class _Program:
    """One program, run again and again; a context manager that sees to its end."""

    def __init__(self, side: str, environment: Dict[str, str], parts: List[Dict[str, float]]) -> None:
        self._command = [sys.executable, "-m", "bench.first_step", side]
        self._environment, self._parts = environment, parts
        self._end: Callable[[], object] = lambda: None

    def __enter__(self) -> "_Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.to_end()

    def to_first_step(self) -> None:
        """Start it; returns when it has trained a step."""
        self.to_end()
        process = subprocess.Popen(self._command, env=self._environment, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
        self._end = process.communicate
        if process.stdout is None:
            raise RuntimeError("a program without an output")
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("{} ended with {}".format(" ".join(self._command), process.wait()))
        self._parts.append(json.loads(line))

    def to_end(self) -> None:
        """Wait until the last one has ended."""
        self._end()
        self._end = lambda: None


CASE = Case("startup", "start", "one_program", ("private", "named"), prepare,
            "from the start of a program to the end of its first step",
            {variant: [Goal(OVER, _MORE_S, _PLAIN)] for variant in ("private", "named")}, warm_up=1)
