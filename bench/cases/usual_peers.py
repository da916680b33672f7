"""One training step of programs of ``usual`` and ``usual_large``, compared with PyTorch and FBGEMM.

FBGEMM is apart from plain TensorFlow, because large tables of three sides would not fit in memory.
"""
import contextlib
from typing import Iterator

from bench import peers
from bench.cases import usual, usual_large
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders
from bench.usual_model import FBGEMM, OURS
from bench.usual_sides import NAMES

_RATIOS = {"26x4096": 2.2, "26x512": 2.5, "100x1024": 2.2, "26x4096-dim-64": 1.9, "4x64": 1.05,
           **dict.fromkeys(usual_large.SETTINGS, 2.4)}
SETTINGS = {variant: {**usual.SETTINGS, **usual_large.SETTINGS}[variant] for variant in _RATIOS}


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    with usual.training(SETTINGS[variant], (OURS, FBGEMM)) as contenders:
        yield contenders._replace(notes=lambda: {**contenders.notes(), "peer": peers.versions()})


CASE = Case("usual_peers", "step", "one_program", tuple(SETTINGS), prepare,
            "training step as in usual and usual_large, compared with FBGEMM's tables for the CPU",
            {variant: [Goal(RATIO, ratio, NAMES[FBGEMM])] for variant, ratio in _RATIOS.items()},
            warm_up=1, missing=peers.missing)
