"""One training step of the click model. ``bench/train_sides.py`` describes the model and its three sides.

On a machine without idle cores, our figure includes the workers' processor time. The case ``train_cpu`` measures the
processor time on any machine.
"""
import contextlib
from typing import Iterator

from bench import train_sides, workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders, repeated

PLAIN = "tf.Variable, embedding_lookup"
DYNAMIC = "MutableHashTable of rows"
_DYNAMIC_IN = "device"  #: only this variant has the dynamic side, because it is slow


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    drawn = train_sides.batches(variant)
    sides = {"ascpipe": train_sides.ascpipe, PLAIN: train_sides.plain}
    if variant == _DYNAMIC_IN:
        sides[DYNAMIC] = train_sides.dynamic
    with contextlib.ExitStack() as stack:
        steps = {name: stack.enter_context(side(variant, drawn)) for name, side in sides.items()}
        count = train_sides.VARIANTS[variant].steps
        lead = train_sides.VARIANTS[variant].lead
        yield Contenders(count, {name: repeated(step, count) for name, step in steps.items()},
                         {name: repeated(step, lead) for name, step in steps.items()})


CASE = Case("train", "step", "one_trainer_one_key_worker_one_table_worker", tuple(train_sides.VARIANTS), prepare,
            "training step, batch of {:,} rows".format(workloads.BATCH_ROWS), {
                "device": [Goal(RATIO, 2, PLAIN), Goal(RATIO, 4, DYNAMIC)], "cached": [Goal(RATIO, 1.5, PLAIN)],
                "device-zipf-1.2": [Goal(RATIO, 1.5, PLAIN)], "cached-zipf-1.2": [Goal(RATIO, 1.5, PLAIN)]})
