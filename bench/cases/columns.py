"""One training step of a wide and deep model on TensorFlow's feature columns. See ``bench/usual_columns.py``.

Our side is the same program with one additional call, which replaces the columns' variables by tables.
"""
import contextlib
from typing import Dict, Iterator

from bench import columns_sides, workloads
from bench.columns_sides import NAMES
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders
from bench.usual_columns import Setting
from bench.usual_model import OURS, PLAIN
from bench.usual_sides import Side

STEPS = 100  #: steps of a turn; an Estimator writes summaries every 100 steps, so each turn has one summary

SETTINGS = {"26x512": Setting(OURS, 26, 512), "26x4096": Setting(OURS, 26, 4096)}


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    steps = workloads.sized(STEPS, 2)
    with contextlib.ExitStack() as stack:
        setting = stack.enter_context(columns_sides.with_data(columns_sides.sized(SETTINGS[variant])))
        sides: Dict[str, Side] = {}
        for side in (OURS, PLAIN):  # sequential, because the start of each side fills gigabytes
            sides[NAMES[side]] = stack.enter_context(columns_sides.side_of(setting._replace(side=side)))
            sides[NAMES[side]].trained()
        yield Contenders(steps, {name: side.turn(steps) for name, side in sides.items()},
                         {name: side.lead for name, side in sides.items()}, notes=lambda: _notes(sides, steps))


def _notes(sides: Dict[str, Side], steps: int) -> Dict[str, str]:
    return {**{"processor time of a step, {}".format(name): "{:.2f} ms".format(1e3 * side.a_step("used_s", steps))
               for name, side in sides.items()},
            **{"train() to the end of the first step, {}".format(name): "{:.1f} s".format(side.first_step_s)
               for name, side in sides.items()}}


CASE = Case("columns", "step", "one_program", tuple(SETTINGS), prepare,
            "training step of DNNLinearCombinedClassifier on feature columns of 1,000,000 buckets",
            {variant: [Goal(RATIO, 1.7, NAMES[PLAIN])] for variant in SETTINGS}, warm_up=1)
