"""One training step of a typical program. Each side is a separate process. See ``bench/usual_program.py``.

Our figure includes the workers' processor time if there are no idle cores. The notes and the case ``usual_cpu`` have
the processor time.
"""
import contextlib
from typing import ContextManager, Dict, Iterator, List, Optional, Sequence

from bench import circumstances, usual_sides, workloads
from bench.goals import OVER, RATIO, Goal
from bench.harness import Case, Contenders
from bench.usual_model import CEILING, OURS, PLAIN, PREFETCH, Setting
from bench.usual_sides import NAMES

# Maximum size of a turn, about a second
_TURN_IDS = 4 * 10 ** 6
_MOST_STEPS = 1000
_FIXED_S = 150e-6  #: maximum additional time of a step with little work, compared with plain TensorFlow

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
    "26x4096-estimator": Setting(OURS, 26, 4096, estimator=True),
}
if circumstances.versions().get("tensorflow", "").startswith("2."):
    del SETTINGS["26x4096-lazy-adam"]  # TensorFlow 2 has no tf.contrib.opt.LazyAdamOptimizer to compare with


def steps_of_turn(setting: Setting) -> int:
    """Return the number of timed steps of a turn: about one second, and at least as many steps as there are
    prepared batches.
    """
    return workloads.sized(max(PREFETCH, min(_MOST_STEPS, _TURN_IDS // (setting.tables * setting.rows))), 2)


def prepare(variant: str) -> ContextManager[Contenders]:
    return training(SETTINGS[variant], (OURS, PLAIN, CEILING))


@contextlib.contextmanager
def training(setting: Setting, sides: Sequence[str]) -> Iterator[Contenders]:
    """Yield the sides of a setting. Each side has trained all batches once, so all ids already have rows."""
    setting = usual_sides.sized(setting)
    steps = steps_of_turn(setting)
    with usual_sides.running(setting, sides) as programs:
        for program in programs.values():
            program.train(setting.batches)
        yield Contenders(steps, {name: program.turn(steps) for name, program in programs.items()},
                         {name: program.lead for name, program in programs.items()},
                         notes=lambda: _notes(programs, steps))


def _notes(programs: Dict[str, usual_sides.Side], steps: int) -> Dict[str, str]:
    return {"processor time of a step, {}".format(name): "{:.2f} ms".format(1e3 * program.a_step("used_s", steps))
            for name, program in programs.items()}


def _goals(ratio: float, ceiling: Optional[float] = None, fixed_s: Optional[float] = None) -> List[Goal]:
    return [Goal(RATIO, ratio, NAMES[PLAIN]),
            *([] if fixed_s is None else [Goal(OVER, fixed_s, NAMES[PLAIN])]),
            *([] if ceiling is None else [Goal(RATIO, ceiling, NAMES[CEILING])])]


CASE = Case("usual", "step", "one_program", tuple(SETTINGS), prepare,
            "training step of a program with a table for each feature, plain lookups and tf.concat", {
                **{variant: _goals(1) for variant in SETTINGS},
                "26x4096": _goals(1.8, .72), "26x4096-tenth": _goals(1.6), "26x512": _goals(1.7),
                "100x1024": _goals(1.7), "26x4096-dim-64": _goals(1, .88), "4x64": _goals(1, fixed_s=_FIXED_S)},
            warm_up=1)
