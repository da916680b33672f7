"""Processor time and wake-ups of the processes of a pipeline."""
import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Dict, Sequence

from bench.harness import Clock

_BEGUN_S = 60.0
_LOOK_S = .02
_SCHED = 2  # CPUCLOCK_SCHED of the kernel: time of all threads of a process, in nanoseconds


def cpu_clock(pids: Sequence[int]) -> Clock:
    """Return a clock of the processor seconds of some processes together. Exited threads are included. Each process
    must be alive.

    Raises:
        ValueError: a process id is 0, because the process has not started. Id 0 would select the clock of this process.
    """
    if any(pid <= 0 for pid in pids):
        raise ValueError("processes {} are not all there".format(list(pids)))
    clocks = [(~pid << 3) | _SCHED for pid in pids]  # result of clock_getcpuclockid

    def read() -> float:
        return sum(time.clock_gettime(clock) for clock in clocks)

    return read


def of_pipeline() -> Dict[str, Sequence[int]]:
    """Return a dict from kind of process to process ids of the running pipeline, after all processes have started. The
    kinds are "daemon", "key", "table" and, if metrics are enabled, "metrics".
    """
    from ascpipe.tf.running.process import Process

    deadline = time.monotonic() + _BEGUN_S
    while True:
        status = Process.current().running_pipeline().link.status()
        found: Dict[str, Sequence[int]] = {"daemon": [status["pid"]]}
        for kind in ("key", "table"):
            found[kind] = [worker["pid"] for worker in status["workers"] if worker["kind"] == kind and worker["pid"]]
        if os.environ.get("ASCPIPE_METRICS_PORT"):
            found["metrics"] = [children_of(status["pid"]).get("metrics", 0)]
        if all(pid > 0 for pids in found.values() for pid in pids):
            return found
        if time.monotonic() > deadline:
            raise RuntimeError("workers that have not begun within {} s: {}".format(_BEGUN_S, found))
        threading.Event().wait(_LOOK_S)


def wake_ups(pid: int, threads: str = "") -> int:
    """Return how often the living threads of a process have run after a pause or after another thread.

    Args:
        pid: process id.
        threads: prefix of the names of the counted threads.
    """
    count = 0
    for folder in Path("/proc", str(pid), "task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the process or thread has just exited
            if (folder / "comm").read_text().startswith(threads):
                status = (folder / "status").read_text()
                count += sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches:" in line)
    return count


def children_of(pid: int) -> Dict[str, int]:
    """Return the process ids of the children of a process. The keys are the titles that ``ps`` shows, up to " of "."""
    found: Dict[str, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == pid:
                title = (folder / "cmdline").read_bytes().split(b"\0")[0].decode("utf-8", "replace")
                found[title.replace("ascpipe: ", "").split(" of ")[0]] = int(folder.name)
    return found
