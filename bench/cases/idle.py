"""Wake-ups of each of our processes while nothing is trained; of the trainer those threads count that we start there.

``1-table``, ``26-tables``: a session is open, has trained, and takes no step. ``named``: a daemon that no trainer uses.
A wake-up is a context switch of a thread: it slept, or another thread had the processor. Threads of TensorFlow and of
Python, of which the one that saves in the background wakes every ten seconds, are not ours to count.
"""
import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from typing import Callable, Dict, Iterator, List

from bench import pipeline_sides, processes, workloads
from bench.goals import COUNT, Goal
from bench.harness import Case, Contenders, median

SECONDS = 10  #: without a step, in a call
_NAMED = "named"
_PER_SECOND = 5
_OURS = "the process with most"
_THREADS = "asc-"  # what the names of our threads in the trainer begin with
_SETTLED_S = 3.0  # what was submitted ahead is planned by then, and looks have become rare

Counters = Dict[str, Callable[[], int]]  #: of wake-ups, by process


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    with (_daemon() if variant == _NAMED else _pipeline(variant)) as daemon_pid:
        threading.Event().wait(_SETTLED_S)
        pids = {"daemon": daemon_pid, **processes.children_of(daemon_pid)}
        counters: Counters = {name: functools.partial(processes.wake_ups, pid) for name, pid in pids.items()}
        if variant != _NAMED:
            counters["trainer"] = functools.partial(processes.wake_ups, os.getpid(), _THREADS)
        pauses = _Pauses(counters, workloads.sized(SECONDS, 1))
        clock = processes.cpu_clock(list(pids.values()))
        began = clock()

        def notes() -> Dict[str, str]:
            share = (clock() - began) / pauses.seconds / len(pauses.counted)
            return {**pauses.notes(), "daemon and its children": "{:.2f} % of a core".format(100 * share)}

        yield Contenders(pauses.seconds, {_OURS: pauses.pause}, clocks={_OURS: pauses.most}, notes=notes)


class _Pauses:
    """Counts wake-ups while we wait."""

    def __init__(self, counters: Counters, seconds: int) -> None:
        self._counters = counters
        self.seconds = seconds
        self.counted: List[Dict[str, int]] = []

    def pause(self) -> None:
        """Wait, and count."""
        before = {name: count() for name, count in self._counters.items()}
        threading.Event().wait(self.seconds)
        self.counted.append({name: count() - before[name] for name, count in self._counters.items()})

    def most(self) -> float:
        """Of all pauses so far, those of the process that woke most often: a clock that counts them."""
        return float(sum(max(pause.values()) for pause in self.counted))

    def notes(self) -> Dict[str, str]:
        """The median of each process."""
        medians = {name: median([pause[name] for pause in self.counted]) for name in self._counters}
        return {name: "{:.1f} wake-ups per second".format(count / self.seconds) for name, count in medians.items()}


@contextlib.contextmanager
def _pipeline(variant: str) -> Iterator[int]:
    """A pipeline that has trained; the process id of its daemon."""
    with pipeline_sides.ascpipe_step(pipeline_sides.batches(variant)) as step:
        for _ in range(4):
            step()
        (daemon_pid,) = processes.of_pipeline()["daemon"]
        yield daemon_pid


@contextlib.contextmanager
def _daemon() -> Iterator[int]:
    """A daemon without a trainer; its process id."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        environment = dict(os.environ, XDG_RUNTIME_DIR=folder)
        environment.pop("ASCPIPE_NAME", None)

        def ascpipe(*words: str) -> str:
            return subprocess.run([sys.executable, "-m", "ascpipe", *words, "--name", "default"], env=environment,
                                  check=True, stdout=subprocess.PIPE, text=True).stdout

        ascpipe("start")
        try:
            yield json.loads(ascpipe("status", "--json"))["pid"]
        finally:
            ascpipe("stop")


CASE = Case("idle", "second", "one_trainer_one_key_worker_one_table_worker", (*pipeline_sides.TABLES, _NAMED), prepare,
            "wake-ups of the process of ours that wakes most often, without a step", {
                variant: [Goal(COUNT, _PER_SECOND)] for variant in (*pipeline_sides.TABLES, _NAMED)},
            quantity="wake-ups", warm_up=0)
