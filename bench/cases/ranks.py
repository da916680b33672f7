"""One training step of several ranks with the model of ``train``. Horovod's launcher starts the ranks, and the sides
train in turns.

The global batch does not depend on the number of ranks. A variant with a dense gradient for its rows has turns of few
steps, because each step sums gradients of the whole table over ranks.
"""
import contextlib
from typing import Dict, Iterator, Sequence

from bench import ranks_sides, workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders, median
from bench.ranks_program import DENSE, OURS, PLAIN
from bench.ranks_sides import Launched

ONE = Launched(OURS, 1)

SIDES: Dict[str, Sequence[Launched]] = {
    "2-ranks": (Launched(OURS, 2), Launched(PLAIN, 2), ONE),
    "4-ranks": (Launched(OURS, 4), Launched(PLAIN, 4), ONE),
    "1-rank": (ONE, Launched(PLAIN, 1)),
    "2-ranks-as-dense": (Launched(OURS, 2), Launched(DENSE, 2)),
}


def steps_of_turn(variant: str) -> int:
    """Return the number of timed steps of a turn."""
    return workloads.sized(8 if variant.endswith("-as-dense") else 16, 2)


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    steps = steps_of_turn(variant)
    with ranks_sides.running(SIDES[variant]) as programs:
        yield Contenders(steps, {name: program.turn(steps) for name, program in programs.items()},
                         {name: program.lead for name, program in programs.items()},
                         notes=lambda: _notes(programs, steps))


def _notes(programs: Dict[str, ranks_sides.Ranks], steps: int) -> Dict[str, str]:
    notes = {}
    for name, program in programs.items():
        sent_bytes = median([turn["sent_bytes"] for turn in program.turns]) / steps
        processor_s = median([turn["processor_s"] for turn in program.turns]) / steps / workloads.batch_rows()
        notes["a rank sends per step, " + name] = "{:.2f} MB".format(1e-6 * sent_bytes)
        notes["processor time of an example, " + name] = "{:.2f} us".format(1e6 * processor_s)
    return notes


CASE = Case("ranks", "step", "launched_ranks", tuple(SIDES), prepare,
            "training step of several ranks, global batch of {:,} rows".format(workloads.BATCH_ROWS), {
                "2-ranks": [Goal(RATIO, 2, Launched(PLAIN, 2).name)],
                "2-ranks-as-dense": [Goal(RATIO, 2, Launched(DENSE, 2).name)]}, warm_up=1)
