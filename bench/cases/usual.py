"""One training step of a program as users write it, each side a process of its own: see ``bench/usual_program.py``.

The workers' processor time is not taken out of our figure; it is counted in the notes.
"""
import contextlib
import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Optional, Type

from bench import usual_program, workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders, median
from bench.usual_program import CEILING, OURS, PLAIN, PREFETCH, Setting

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LEAD = PREFETCH + 2  #: steps of a turn that are not timed: what was made ready during another's turn is used up
_TURN_IDS, _MOST_STEPS = 4 * 10 ** 6, 1000  #: of a turn, about a second
_NAMES = {OURS: "ascpipe", PLAIN: "tf.Variable, embedding_lookup", CEILING: "rows at hand, the dense part alone"}

SETTINGS = {
    "26x4096": Setting(OURS, 26, 4096),
    "26x4096-tenth": Setting(OURS, 26, 4096, part=10),
    "26x512": Setting(OURS, 26, 512),
    "100x1024": Setting(OURS, 100, 1024, keys=20000),
    "26x4096-dim-64": Setting(OURS, 26, 4096, dim=64),
    "4x64": Setting(OURS, 4, 64),
    "26x4096-lazy-adam": Setting(OURS, 26, 4096, optimizer="lazy_adam"),
    "26x4096-zipf-1.2": Setting(OURS, 26, 4096, exponent=1.2),
    "26x4096-modified-graph": Setting(OURS, 26, 4096, modifies_graph=True),
}


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    setting = SETTINGS[variant]
    setting = setting._replace(keys=workloads.sized(setting.keys, 2 * setting.rows * setting.part))
    steps = workloads.sized(max(PREFETCH, min(_MOST_STEPS, _TURN_IDS // (setting.tables * setting.rows))), 2)
    with contextlib.ExitStack() as stack:
        programs = {_NAMES[side]: stack.enter_context(_Program(setting._replace(side=side)))
                    for side in (OURS, PLAIN, CEILING)}
        yield Contenders(steps, {name: program.turn(steps) for name, program in programs.items()},
                         {name: program.lead for name, program in programs.items()},
                         notes=lambda: _notes(programs, steps))


def _notes(programs: Dict[str, "_Program"], steps: int) -> Dict[str, str]:
    return {"processor time of a step, {}".format(name): "{:.2f} ms".format(1e3 * median(program.cpu_s) / steps)
            for name, program in programs.items()}


class _Program:
    """One side; a context manager that waits for its end.

    Attributes:
        cpu_s: processor seconds of its processes in each turn.
    """

    def __init__(self, setting: Setting) -> None:
        self._command = [sys.executable, "-m", usual_program.__name__, json.dumps(setting._asdict())]
        self.cpu_s: List[float] = []

    def __enter__(self) -> "_Program":
        self._process = subprocess.Popen(self._command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True)
        self._used_s = self._answer()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self._process.communicate()

    def lead(self) -> None:
        """Run steps that are not timed."""
        self._used_s = self._run(workloads.sized(_LEAD, 2))

    def turn(self, steps: int) -> Callable[[], object]:
        """A call that runs steps."""
        def call() -> None:
            used_s = self._run(steps)
            self.cpu_s.append(used_s - self._used_s)
            self._used_s = used_s

        return call

    def _run(self, steps: int) -> float:
        pipe: Any = self._process.stdin
        pipe.write("{}\n".format(steps))
        pipe.flush()
        return self._answer()

    def _answer(self) -> float:
        pipe: Any = self._process.stdout
        line = pipe.readline()
        if not line:
            raise RuntimeError("{} ended with {}".format(" ".join(self._command), self._process.wait()))
        return float(json.loads(line))


def _goals(ratio: float, ceiling: Optional[float] = None) -> List[Goal]:
    goals = [Goal(RATIO, ratio, _NAMES[PLAIN])]
    return goals if ceiling is None else [*goals, Goal(RATIO, ceiling, _NAMES[CEILING])]


CASE = Case("usual", "step", "one_program", tuple(SETTINGS), prepare,
            "training step of a program with a table for each feature, plain lookups and tf.concat", {
                "26x4096": _goals(1.8, .72), "26x4096-tenth": _goals(1.6), "26x512": _goals(1.7),
                "100x1024": _goals(1.7), "26x4096-dim-64": _goals(1, .88), "4x64": _goals(1),
                "26x4096-lazy-adam": _goals(1), "26x4096-zipf-1.2": _goals(1), "26x4096-modified-graph": _goals(1)},
            warm_up=1)
