"""From the start of a program to the end of its first step, Python and TensorFlow included, against one without us.

``private``: the program starts its own daemon. ``named``: one runs already. Kernels are compiled and linked.
``columns``: the program of ``bench/usual_columns.py``, against the same on TensorFlow's own columns.
"""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from typing import Callable, ContextManager, Dict, Iterator, List

from bench import columns_sides
from bench.cases import columns
from bench.columns_sides import NAMES
from bench.goals import OVER, SHARE, Goal
from bench.harness import Case, Contenders, median
from bench.usual_model import OURS, PLAIN
from bench.usual_sides import Side

_MORE_S = 1.0  # than the program without us
_SHARE = .5  # of the time that TensorFlow takes to fill variables of 26,000,000 rows
_COLUMNS = "columns"
_ROUNDS = 5  # where one takes a minute and a half
_OURS = "ascpipe"
_PLAIN = "tf.Variable"
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def prepare(variant: str) -> ContextManager[Contenders]:
    return _on_columns() if variant == _COLUMNS else _on_a_table(variant)


@contextlib.contextmanager
def _on_columns() -> Iterator[Contenders]:
    with columns_sides.with_data(columns_sides.sized(columns.SETTINGS["26x512"])) as setting, \
            tempfile.TemporaryDirectory(prefix="bench-") as folder, contextlib.ExitStack() as stack:
        environment = _environment(folder)
        sides = {NAMES[side]: columns_sides.side_of(setting._replace(side=side), environment=environment)
                 for side in (OURS, PLAIN)}
        for side in sides.values():
            stack.callback(side.kill)
        took_s: Dict[str, List[float]] = {name: [] for name in sides}

        def end_all() -> None:  # a side that writes its last checkpoint would slow the other one's start
            for side in sides.values():
                side.end()
            os.sync()  # and so would a checkpoint of gigabytes that the disk has not written yet

        yield Contenders(1, {name: _first_step(side, took_s[name]) for name, side in sides.items()},
                         dict.fromkeys(sides, end_all),
                         notes=lambda: {"train() to the end of the first step, {}".format(name):
                                        "{:.1f} s".format(median(seconds)) for name, seconds in took_s.items()})
        end_all()


def _first_step(side: Side, took_s: List[float]) -> Callable[[], None]:
    """A call that starts the side, returns when it has trained a step, and adds what ``train`` took of it."""
    def call() -> None:
        side.end()  # of the call before, where nothing else ended it
        side.start()
        side.trained()
        took_s.append(side.first_step_s)

    return call


def _environment(folder: str) -> Dict[str, str]:
    """Of a program that finds those daemons alone which lie in a folder."""
    environment = dict(os.environ, XDG_RUNTIME_DIR=folder)
    environment.pop("ASCPIPE_NAME", None)
    return environment


@contextlib.contextmanager
def _on_a_table(variant: str) -> Iterator[Contenders]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, contextlib.ExitStack() as stack:
        environment = _environment(folder)
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
        self._environment = environment
        self._parts = parts
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


CASE = Case("startup", "start", "one_program", ("private", "named", _COLUMNS), prepare,
            "from the start of a program to the end of its first step", {
                **{variant: [Goal(OVER, _MORE_S, _PLAIN)] for variant in ("private", "named")},
                _COLUMNS: [Goal(SHARE, _SHARE, NAMES[PLAIN])]}, warm_up=1, repeats_of={_COLUMNS: _ROUNDS})
