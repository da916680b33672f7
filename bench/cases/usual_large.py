"""One training step of the program of ``usual`` with tables of one and two million rows.

There are more different batches than in ``usual``. With uniform ids they contain 41 % and 23 % of the rows, far more
than caches hold. Fewer batches would favour our side, because it stores rows in the order of their first use.
"""
from typing import ContextManager

from bench.cases import usual
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders
from bench.usual_model import OURS, PLAIN, Setting
from bench.usual_sides import NAMES

_BATCHES = 128
_UNIFORM = 0.0
_RATIO = 2.5

SETTINGS = {
    "26x4096-1m": Setting(OURS, 26, 4096, keys=10 ** 6, batches=_BATCHES),
    "26x4096-1m-uniform": Setting(OURS, 26, 4096, keys=10 ** 6, exponent=_UNIFORM, batches=_BATCHES),
    "26x4096-2m": Setting(OURS, 26, 4096, keys=2 * 10 ** 6, batches=_BATCHES),
    "26x4096-2m-uniform": Setting(OURS, 26, 4096, keys=2 * 10 ** 6, exponent=_UNIFORM, batches=_BATCHES),
}


def prepare(variant: str) -> ContextManager[Contenders]:
    return usual.training(SETTINGS[variant], (OURS, PLAIN))


CASE = Case("usual_large", "step", "one_program", tuple(SETTINGS), prepare,
            "training step as in usual, with 26 tables of 1,000,000 or 2,000,000 rows",
            {variant: [Goal(RATIO, _RATIO, NAMES[PLAIN])] for variant in SETTINGS}, warm_up=1)
