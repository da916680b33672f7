"""Processor time of the daemon and its workers while a program that has trained takes no step."""
import contextlib
import threading
from typing import Dict, Iterator

from bench import pipeline_sides, processes, workloads
from bench.goals import COST, Goal
from bench.harness import Case, Contenders

SECONDS = 10  #: without a step, in a call
_SHARE = .01  #: of a core
_SETTLED_S = 2.0  #: what was submitted ahead is planned by then


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    with pipeline_sides.ascpipe_step(pipeline_sides.batches(variant)) as step:
        for _ in range(4):
            step()
        pids = processes.of_pipeline()
        clocks = {kind: processes.cpu_clock(found) for kind, found in pids.items()}
        threading.Event().wait(workloads.sized(1, 0) * _SETTLED_S)
        seconds = workloads.sized(SECONDS, 1)
        began = {kind: clock() for kind, clock in clocks.items()}
        calls = []

        def pause() -> None:
            threading.Event().wait(seconds)
            calls.append(seconds)

        def shares() -> Dict[str, str]:
            return {"{} of a core".format(kind): "{:.2f} %".format(100 * (clock() - began[kind]) / sum(calls))
                    for kind, clock in clocks.items()}

        name = "daemon, key worker, table worker"
        yield Contenders(seconds, {name: pause}, notes=shares, clocks={
            name: processes.cpu_clock([pid for found in pids.values() for pid in found])})


CASE = Case("idle", "second", "one_trainer_one_key_worker_one_table_worker", tuple(pipeline_sides.TABLES), prepare,
            "processor time of daemon and workers without a step", {
                variant: [Goal(COST, _SHARE)] for variant in pipeline_sides.TABLES}, quantity="CPU s", warm_up=0)
