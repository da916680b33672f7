"""One training step of a typical program whose tables are four times as large as their rows in memory.

The peer is the same program with all rows in host memory. In ``1ms`` and ``20ms`` the disk is a file system in user
space with this latency, and a step computes for 20 ms more without processor time. During a step, the disk can
transfer as many blocks per latency as it has threads.
"""
import contextlib
from typing import Dict, Iterator

from bench import usual_sides, workloads
from bench.cases.usual import steps_of_turn
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders
from bench.usual_model import ON_DISK, OURS, Setting
from bench.usual_sides import NAMES

_SETTING = Setting(ON_DISK, 26, 1024, part=20, batches=400)
_SLOW = Setting(ON_DISK, 26, 64, keys=8000, part=20, batches=800, compute_ms=20, delay_ms=1)
_TURN_MS = 4000  #: minimum duration of a turn whose steps have additional computation
SETTINGS = {
    "26x1024": _SETTING,
    "26x1024-dim-64": _SETTING._replace(dim=64),
    "26x1024-uniform": _SETTING._replace(exponent=0.0),
    "26x1024-uniform-dim-64": _SETTING._replace(exponent=0.0, dim=64),
    "26x64-1ms": _SLOW,
    "26x64-20ms": _SLOW._replace(delay_ms=20),
}


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    setting = usual_sides.sized(SETTINGS[variant])
    setting = setting._replace(batches=workloads.sized(setting.batches, 8))
    steps = min(steps_of_turn(setting), _TURN_MS // max(1, setting.compute_ms))
    with usual_sides.running(setting, (ON_DISK, OURS)) as programs:
        for program in programs.values():
            program.train(setting.batches)  # each key then has a row
        yield Contenders(steps, {name: program.turn(steps) for name, program in programs.items()},
                         {name: program.lead for name, program in programs.items()},
                         notes=lambda: _notes(setting, programs, steps))


def _notes(setting: Setting, programs: Dict[str, usual_sides.Side], steps: int) -> Dict[str, str]:
    ours = programs[NAMES[ON_DISK]]
    row_bytes = 4 * 2 * setting.dim  # with the accumulator
    return {"rows from disk for a step": "{:.0f}".format(ours.a_step("fetches", steps)),
            "plans of a step that waited for rows from disk": "{:.1f} of {}".format(
                ours.a_step("disk_waits", steps), setting.tables),
            "bytes written for one of a row that goes to disk": _ratio(
                ours.a_step("written_bytes", steps), ours.a_step("rows_written", steps) * row_bytes),
            **{"processor time of a step, {}".format(name): "{:.2f} ms".format(1e3 * program.a_step("used_s", steps))
               for name, program in programs.items()}}


def _ratio(written: float, of_rows: float) -> str:
    return "{:.1f}".format(written / of_rows) if of_rows else "-, none does in small sizes"


_AT_MOST = 1 / 1.3  #: minimum share of the speed with all rows in host memory

CASE = Case("ssd", "step", "one_program", tuple(SETTINGS), prepare,
            "training step of a program whose tables are four times as large as their rows in memory", {
                "26x64-1ms": [Goal(RATIO, _AT_MOST, NAMES[OURS])]}, warm_up=1)
