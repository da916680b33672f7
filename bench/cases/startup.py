"""Time from the start of a program to the end of its first step, compared with a program without ascpipe. The time
includes Python and TensorFlow.

In ``private`` the program starts a private daemon. In ``named`` a daemon is already running. Kernels are compiled and
linked. ``columns`` is the program of ``bench/usual_columns.py``, compared with TensorFlow's feature columns.
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

_MORE_S = 1.0  # maximum of the additional time
_SHARE = .5  # share of the time in which TensorFlow fills variables of 26,000,000 rows
_COLUMNS = "columns"
_ROUNDS = 5  # few, because a round lasts 90 s
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

        def end_all() -> None:  # the last checkpoint of one side would slow the start of the other side
            for side in sides.values():
                side.end()
            os.sync()  # unwritten gigabytes of a checkpoint would also slow the start

        yield Contenders(1, {name: _first_step(side, took_s[name]) for name, side in sides.items()},
                         dict.fromkeys(sides, end_all),
                         notes=lambda: {"train() to the end of the first step, {}".format(name):
                                        "{:.1f} s".format(median(seconds)) for name, seconds in took_s.items()})
        end_all()


def _first_step(side: Side, took_s: List[float]) -> Callable[[], None]:
    """Return a function that starts the side and waits for its first step. It appends the duration of ``train`` to
    ``took_s``.
    """
    def call() -> None:
        side.end()  # the process of the previous call
        side.start()
        side.trained()
        took_s.append(side.first_step_s)

    return call


def _environment(folder: str) -> Dict[str, str]:
    """Return the environment of a program that only finds the daemons in a folder."""
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
    """Program that is run repeatedly. On exit the context manager waits for the program."""

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
        """Start the program, and wait until it has trained a step."""
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
        """Wait until the last run has exited."""
        self._end()
        self._end = lambda: None


CASE = Case("startup", "start", "one_program", ("private", "named", _COLUMNS), prepare,
            "from the start of a program to the end of its first step", {
                **{variant: [Goal(OVER, _MORE_S, _PLAIN)] for variant in ("private", "named")},
                _COLUMNS: [Goal(SHARE, _SHARE, NAMES[PLAIN])]}, warm_up=1, repeats_of={_COLUMNS: _ROUNDS})
