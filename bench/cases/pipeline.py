"""Conversion of the ids of a batch to slots, from AscSubmit to AscNextPlan, compared with TensorFlow.

TensorFlow uses tf.unique and a MutableDenseHashTable for each table in the training graph. Our pipeline does more work:
it counts uses, looks ahead and leases slots. Most of this work is done outside the graph. The figures are the waiting
times of the graph, without the processor time of the workers. The case ``worker_cpu`` measures that time.
"""
import contextlib
from typing import Iterator

from bench import pipeline_sides, workloads
from bench.goals import RATE, RATIO, Goal
from bench.harness import Case, Contenders, repeated

STEPS = 24  #: timed steps of a call
#: untimed first steps; they consume the batches that were prepared while the other contender ran
LEAD = 4

_TF = "tf.unique, MutableDenseHashTable"


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    drawn = pipeline_sides.batches(variant)
    with contextlib.ExitStack() as stack:
        steps = {"AscSubmit to AscNextPlan": stack.enter_context(pipeline_sides.ascpipe_step(drawn)),
                 _TF: stack.enter_context(pipeline_sides.hash_table_step(drawn))}
        count = workloads.sized(STEPS, 2)
        yield Contenders(count * workloads.batch_ids(), {name: repeated(step, count) for name, step in steps.items()},
                         {name: repeated(step, LEAD) for name, step in steps.items()})


CASE = Case("pipeline", "id", "one_trainer_one_key_worker_one_table_worker", tuple(pipeline_sides.TABLES), prepare,
            "slots of batches of {:,} ids, Zipf 1.05, all keys known".format(workloads.BATCH_IDS),
            {variant: [Goal(RATIO, 6, _TF), Goal(RATE, 30e6)] for variant in pipeline_sides.TABLES})
