"""Wake-ups of each of our processes without training. In the trainer only the threads of ascpipe are counted.

The variants ``1-table`` and ``26-tables`` have an open session that has trained and executes no step. ``named`` is a
daemon without a trainer. A wake-up is a context switch of a thread: the thread slept, or another thread used the
processor. Threads of TensorFlow and Python are not counted. Python's thread for saves in the background wakes every ten
seconds.
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

SECONDS = 10  #: duration of a call, without a step
_NAMED = "named"
_PER_SECOND = 5
_OURS = "the process with most"
_THREADS = "asc-"  # prefix of the names of our threads in the trainer
_SETTLED_S = 3.0  # after this time, all submitted batches are planned, and polling is rare

Counters = Dict[str, Callable[[], int]]  #: functions that count wake-ups, by process


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
    """Counts of wake-ups during pauses."""

    def __init__(self, counters: Counters, seconds: int) -> None:
        self._counters = counters
        self.seconds = seconds
        self.counted: List[Dict[str, int]] = []

    def pause(self) -> None:
        """Wait, and count the wake-ups of each process."""
        before = {name: count() for name, count in self._counters.items()}
        threading.Event().wait(self.seconds)
        self.counted.append({name: count() - before[name] for name, count in self._counters.items()})

    def most(self) -> float:
        """Return the sum over all pauses. A pause counts the wake-ups of the process with the most wake-ups. The sum is
        used as a clock.
        """
        return float(sum(max(pause.values()) for pause in self.counted))

    def notes(self) -> Dict[str, str]:
        """Return the median wake-ups per second of each process."""
        medians = {name: median([pause[name] for pause in self.counted]) for name in self._counters}
        return {name: "{:.1f} wake-ups per second".format(count / self.seconds) for name, count in medians.items()}


@contextlib.contextmanager
def _pipeline(variant: str) -> Iterator[int]:
    """Start a pipeline and train some steps. Yield the process id of the daemon."""
    with pipeline_sides.ascpipe_step(pipeline_sides.batches(variant)) as step:
        for _ in range(4):
            step()
        (daemon_pid,) = processes.of_pipeline()["daemon"]
        yield daemon_pid


@contextlib.contextmanager
def _daemon() -> Iterator[int]:
    """Start a daemon without a trainer. Yield its process id."""
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
