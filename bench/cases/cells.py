"""The model of ``usual`` in every size: tables x rows of a batch, by dim, with all rows on the device or a tenth.

Each side is a process of its own, ours and plain TensorFlow; a turn is as many steps as take ``_TURN_S``.
"""
import contextlib
import functools
import math
import time
from typing import Dict, Iterator, NamedTuple

from bench import usual_sides, workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders
from bench.usual_model import OURS, PLAIN, Setting
from bench.usual_sides import LEAD, NAMES, Side

# tiers
DEVICE = "device"
HOST = "host"
TABLES = (1, 4, 26, 100)
ROWS = (64, 256, 1024, 4096)
DIMS = (8, 16, 64)
TIERS = (DEVICE, HOST)

_KEYS = 100000  #: of a table
_KEYS_OF_MANY = 20000  #: of a table if there are _MANY tables
_MANY = 100
_PART = 10  #: on the host tier, one in ten rows fits on the device
_TURN_S = .2
_LEAST_STEPS = 8
_MOST_STEPS = 1000
_WARM_STEPS = 8
_LOOK_STEPS = LEAD - 8
_REPEATS = 5


class Cell(NamedTuple):
    """One size.

    Attributes:
        tables: how many; each has one feature of one id.
        rows: of a batch.
        dim: of the tables.
        tier: DEVICE: all rows of a table fit on the device; HOST: a tenth of them.
    """

    tables: int
    rows: int
    dim: int
    tier: str


#: by name of the variant
CELLS: Dict[str, Cell] = {
    "{}x{}-dim-{}-{}".format(tables, rows, dim, tier): Cell(tables, rows, dim, tier)
    for tables in TABLES for rows in ROWS for dim in DIMS for tier in TIERS}


def setting_of(cell: Cell) -> Setting:
    """What a cell trains."""
    return Setting(OURS, cell.tables, cell.rows, cell.dim, _KEYS_OF_MANY if cell.tables >= _MANY else _KEYS,
                   1 if cell.tier == DEVICE else _PART)


def steps_of_turn(step_s: float) -> int:
    """Timed steps of a turn, where the faster side takes that long for one."""
    return max(_LEAST_STEPS, min(_MOST_STEPS, math.ceil(_TURN_S / step_s)))


def lead_of_turn(steps: int) -> int:
    """Steps before the timed ones: fewer than are ready where a step takes long, since it makes no difference there."""
    return min(LEAD, steps)


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    with usual_sides.running(usual_sides.sized(setting_of(CELLS[variant])), (OURS, PLAIN)) as programs:
        steps = workloads.sized(steps_of_turn(min([_step_s(program) for program in programs.values()])), 2)
        lead = lead_of_turn(steps)
        yield Contenders(steps, {name: program.turn(steps) for name, program in programs.items()},
                         {name: functools.partial(program.train, lead) for name, program in programs.items()})


def _step_s(program: Side) -> float:
    """Seconds of a step, after some."""
    program.train(workloads.sized(_WARM_STEPS, 1))
    steps = workloads.sized(_LOOK_STEPS, 1)
    began_s = time.perf_counter()
    program.train(steps)
    return (time.perf_counter() - began_s) / steps


CASE = Case("cells", "step", "one_program", tuple(CELLS), prepare,
            "training step as in usual, by tables x rows of a batch, dim, and where rows lie",
            {variant: [Goal(RATIO, 1, NAMES[PLAIN])] for variant in CELLS}, warm_up=0, repeats=_REPEATS)
