"""Processor time of a training step: trainer, workers and daemon together, with the model of ``train``."""
import contextlib
import time
from typing import Iterator

from bench import processes, train_sides, workloads
from bench.cases.train import PLAIN
from bench.goals import SHARE, Goal
from bench.harness import Case, Contenders, repeated

_OURS = "ascpipe, all processes"


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    drawn = train_sides.batches(variant)
    with train_sides.ascpipe(variant, drawn) as ours, train_sides.plain(variant, drawn) as theirs:
        beside = processes.cpu_clock([pid for found in processes.of_pipeline().values() for pid in found])
        count = train_sides.VARIANTS[variant].steps
        lead = train_sides.VARIANTS[variant].lead
        yield Contenders(count, {_OURS: repeated(ours, count), PLAIN: repeated(theirs, count)},
                         {_OURS: repeated(ours, lead), PLAIN: repeated(theirs, lead)},
                         {_OURS: lambda: time.process_time() + beside(), PLAIN: time.process_time})


CASE = Case("train_cpu", "step", "one_trainer_one_key_worker_one_table_worker", ("device", "device-zipf-1.2"), prepare,
            "processor time of a training step, batch of {:,} rows".format(workloads.BATCH_ROWS),
            {"device": [Goal(SHARE, .55, PLAIN)]}, quantity="CPU s")
