"""Processor time of the processes of a pipeline."""
import time
from typing import Dict, Sequence

from bench.harness import Clock

_SCHED = 2  # CPUCLOCK_SCHED of the kernel: all threads of a process, in nanoseconds


def cpu_clock(pids: Sequence[int]) -> Clock:
    """Processor seconds of some processes together, threads of theirs that ended included; each must be alive."""
    clocks = [(~pid << 3) | _SCHED for pid in pids]  # what clock_getcpuclockid gives

    def read() -> float:
        return sum(time.clock_gettime(clock) for clock in clocks)

    return read


def of_pipeline() -> Dict[str, Sequence[int]]:
    """Process ids behind the pipeline that runs: "daemon", "key", "table"."""
    from ascpipe.tf.configuration import Configuration

    status = Configuration.get_instance().running_pipeline().status()
    found: Dict[str, Sequence[int]] = {"daemon": [status["pid"]]}
    for kind in ("key", "table"):
        found[kind] = [worker["pid"] for worker in status["workers"] if worker["kind"] == kind]
    return found
