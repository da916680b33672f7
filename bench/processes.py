"""Processor time of the processes of a pipeline."""
import threading
import time
from typing import Dict, Sequence

from bench.harness import Clock

_BEGUN_S = 60.0
_LOOK_S = .02
_SCHED = 2  # CPUCLOCK_SCHED of the kernel: all threads of a process, in nanoseconds


def cpu_clock(pids: Sequence[int]) -> Clock:
    """Processor seconds of some processes together, threads of theirs that ended included; each must be alive.

    Raises:
        ValueError: one of them is none: what has not begun has 0, which would be the clock of this process.
    """
    if any(pid <= 0 for pid in pids):
        raise ValueError("processes {} are not all there".format(list(pids)))
    clocks = [(~pid << 3) | _SCHED for pid in pids]  # what clock_getcpuclockid gives

    def read() -> float:
        return sum(time.clock_gettime(clock) for clock in clocks)

    return read


def of_pipeline() -> Dict[str, Sequence[int]]:
    """Process ids behind the pipeline that runs, when all have begun: "daemon", "key", "table"."""
    from ascpipe.tf.running.process import Process

    deadline = time.monotonic() + _BEGUN_S
    while True:
        status = Process.current().running_pipeline().link.status()
        found: Dict[str, Sequence[int]] = {"daemon": [status["pid"]]}
        for kind in ("key", "table"):
            found[kind] = [worker["pid"] for worker in status["workers"] if worker["kind"] == kind]
        if all(pid > 0 for pids in found.values() for pid in pids):
            return found
        if time.monotonic() > deadline:
            raise RuntimeError("workers that have not begun within {} s: {}".format(_BEGUN_S, found))
        threading.Event().wait(_LOOK_S)
