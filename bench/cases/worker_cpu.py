"""Processor time of the key worker and the table worker per batch, without the trainer."""
import contextlib
from typing import Dict, Iterator

from bench import pipeline_sides, processes, workloads
from bench.goals import COST, Goal
from bench.harness import Case, Contenders, repeated

STEPS = 24  #: steps of a call
LEAD = 4  #: first steps, which consume the prepared batches
SMALL_STEPS = 80  #: more than the frames of a ring, so that the workers must work before the last step

_OURS = "key worker, table worker"
_BATCH_CPU_S = .005


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    with pipeline_sides.ascpipe_step(pipeline_sides.batches(variant)) as step:
        pids = processes.of_pipeline()
        clocks = {kind: processes.cpu_clock(pids[kind]) for kind in ("key", "table")}
        started = {kind: clock() for kind, clock in clocks.items()}

        def shares() -> Dict[str, str]:
            used = {kind: clock() - started[kind] for kind, clock in clocks.items()}
            return {"share of the key worker": "{:.0f} %".format(100 * used["key"] / sum(used.values()))}

        count = workloads.sized(STEPS, SMALL_STEPS)
        yield Contenders(count, {_OURS: repeated(step, count)}, {_OURS: repeated(step, LEAD)},
                         {_OURS: processes.cpu_clock([*pids["key"], *pids["table"]])}, shares)


CASE = Case("worker_cpu", "batch", "one_trainer_one_key_worker_one_table_worker", tuple(pipeline_sides.TABLES),
            prepare, "processor time of the workers for a batch of {:,} ids".format(workloads.BATCH_IDS),
            {variant: [Goal(COST, _BATCH_CPU_S)] for variant in pipeline_sides.TABLES}, quantity="CPU s")
