"""Processor time per example of several ranks, summed over all their processes.

The case runs the programs of the case ``ranks``.
"""
import contextlib
from typing import Iterator

from bench import ranks_sides, workloads
from bench.cases.ranks import ONE, SIDES, steps_of_turn
from bench.goals import SHARE, Goal
from bench.harness import Case, Clock, Contenders
from bench.ranks_sides import Ranks


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    steps = steps_of_turn(variant)
    with ranks_sides.running(SIDES[variant]) as programs:
        yield Contenders(steps * workloads.batch_rows(),
                         {name: program.turn(steps) for name, program in programs.items()},
                         {name: program.lead for name, program in programs.items()},
                         {name: _clock(program) for name, program in programs.items()})


def _clock(program: Ranks) -> Clock:
    return lambda: program.processor_s


CASE = Case("ranks_cpu", "example", "launched_ranks", ("2-ranks", "4-ranks"), prepare,
            "processor time of an example trained by several ranks, global batch of {:,} rows".format(
                workloads.BATCH_ROWS), {"2-ranks": [Goal(SHARE, 1.6, ONE.name)]}, quantity="CPU s", warm_up=1)
