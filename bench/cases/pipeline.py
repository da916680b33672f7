"""From the ids of a batch to the slot of each: AscSubmit to AscNextPlan, against TensorFlow's own way.

TensorFlow's: tf.unique and a MutableDenseHashTable for each table, in the training graph. Ours does more (it
counts, looks ahead and leases) and most of it beside the graph; the processor time of the workers is not in these
figures, only how long the graph waits: the case ``worker_cpu`` has it.
"""
import contextlib
from typing import Iterator

from bench import pipeline_sides, workloads
from bench.goals import RATE, RATIO, Goal
from bench.harness import Case, Contenders, repeated

STEPS = 24  #: timed ones of a call
#: steps before them, not timed: while the other contender ran, batches were made ready for this one
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
