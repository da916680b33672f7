"""The model of ``usual`` in many sizes. A cell is a number of tables, rows of a batch, a dim, and a tier: all rows or
one tenth of them on the device.

Our side and plain TensorFlow are separate processes. A turn lasts about ``_TURN_S``.
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

# Tiers
DEVICE = "device"
HOST = "host"
TABLES = (1, 4, 26, 100)
ROWS = (64, 256, 1024, 4096)
DIMS = (8, 16, 64)
TIERS = (DEVICE, HOST)

_KEYS = 100000  #: keys of a table
_KEYS_OF_MANY = 20000  #: keys of a table if there are _MANY tables
_MANY = 100
_PART = 10  #: on the host tier, one in ten rows fits on the device
_TURN_S = .2
_LEAST_STEPS = 8
_MOST_STEPS = 1000
_WARM_STEPS = 8
_LOOK_STEPS = LEAD - 8
_REPEATS = 5


class Cell(NamedTuple):
    """Size of one cell.

    Attributes:
        tables: number of tables. Each table has one feature with one id per row.
        rows: rows of a batch.
        dim: dim of the tables.
        tier: DEVICE (all rows of a table fit on the device) or HOST (one tenth of the rows fits).
    """

    tables: int
    rows: int
    dim: int
    tier: str


#: cells by variant name
CELLS: Dict[str, Cell] = {
    "{}x{}-dim-{}-{}".format(tables, rows, dim, tier): Cell(tables, rows, dim, tier)
    for tables in TABLES for rows in ROWS for dim in DIMS for tier in TIERS}


def setting_of(cell: Cell) -> Setting:
    """Return the setting of a cell."""
    return Setting(OURS, cell.tables, cell.rows, cell.dim, _KEYS_OF_MANY if cell.tables >= _MANY else _KEYS,
                   1 if cell.tier == DEVICE else _PART)


def steps_of_turn(step_s: float) -> int:
    """Return the number of timed steps of a turn. ``step_s`` is the duration of a step of the faster side."""
    return max(_LEAST_STEPS, min(_MOST_STEPS, math.ceil(_TURN_S / step_s)))


def lead_of_turn(steps: int) -> int:
    """Return the number of steps before the timed steps. Slow cells have fewer such steps, because prepared batches
    make no difference there.
    """
    return min(LEAD, steps)


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    with usual_sides.running(usual_sides.sized(setting_of(CELLS[variant])), (OURS, PLAIN)) as programs:
        steps = workloads.sized(steps_of_turn(min([_step_s(program) for program in programs.values()])), 2)
        lead = lead_of_turn(steps)
        yield Contenders(steps, {name: program.turn(steps) for name, program in programs.items()},
                         {name: functools.partial(program.train, lead) for name, program in programs.items()})


def _step_s(program: Side) -> float:
    """Return the seconds of a step after a warm-up."""
    program.train(workloads.sized(_WARM_STEPS, 1))
    steps = workloads.sized(_LOOK_STEPS, 1)
    began_s = time.perf_counter()
    program.train(steps)
    return (time.perf_counter() - began_s) / steps


CASE = Case("cells", "step", "one_program", tuple(CELLS), prepare,
            "training step as in usual, by tables x rows of a batch, dim, and where rows lie",
            {variant: [Goal(RATIO, 1, NAMES[PLAIN])] for variant in CELLS}, warm_up=0, repeats=_REPEATS)
