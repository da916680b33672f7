"""Processor time of a step of ``usual``: trainer, workers and daemon together."""
import contextlib
from typing import Iterator

from bench import usual_sides
from bench.cases.usual import SETTINGS, steps_of_turn
from bench.goals import SHARE, Goal
from bench.harness import Case, Clock, Contenders
from bench.usual_model import OURS, PLAIN
from bench.usual_sides import NAMES, Side


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    setting = usual_sides.sized(SETTINGS[variant])
    steps = steps_of_turn(setting)
    with usual_sides.running(setting, (OURS, PLAIN)) as programs:
        yield Contenders(steps, {name: program.turn(steps) for name, program in programs.items()},
                         {name: program.lead for name, program in programs.items()},
                         {name: _clock(program) for name, program in programs.items()})


def _clock(program: Side) -> Clock:
    return lambda: program.used_s


CASE = Case("usual_cpu", "step", "one_program", ("26x4096",), prepare,
            "processor time of a training step of a program with a table for each feature",
            {"26x4096": [Goal(SHARE, .55, NAMES[PLAIN])]}, quantity="CPU s", warm_up=1)
