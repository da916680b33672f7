"""Training step of two ranks with a long computation, with and without late ids. Keys are exchanged before
their step.
"""
import contextlib
from typing import Iterator

from bench import ranks_sides, workloads
from bench.goals import SHARE, Goal
from bench.harness import Case, Contenders
from bench.ranks_program import COMPUTES, LATE
from bench.ranks_sides import Launched

_SIDES = Launched(LATE, 2), Launched(COMPUTES, 2)


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    steps = workloads.sized(16, 2)
    with ranks_sides.running(_SIDES) as programs:
        yield Contenders(steps, {name: program.turn(steps) for name, program in programs.items()},
                         {name: program.lead for name, program in programs.items()})


CASE = Case("ranks_late", "step", "launched_ranks", ("2-ranks",), prepare,
            "training step of two ranks whose ids come late, global batch of {:,} rows".format(workloads.BATCH_ROWS),
            {"2-ranks": [Goal(SHARE, 1.1, _SIDES[1].name)]}, warm_up=1)
