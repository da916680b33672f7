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
    """Process ids behind the pipeline that runs, when all have begun: "daemon", "key", "table"; "metrics" if asked for.
    """
    from ascpipe.tf.running.process import Process

    deadline = time.monotonic() + _BEGUN_S
    while True:
        status = Process.current().running_pipeline().link.status()
        found: Dict[str, Sequence[int]] = {"daemon": [status["pid"]]}
        for kind in ("key", "table"):
            found[kind] = [worker["pid"] for worker in status["workers"] if worker["kind"] == kind]
        if os.environ.get("ASCPIPE_METRICS_PORT"):
            found["metrics"] = [children_of(status["pid"]).get("metrics", 0)]
        if all(pid > 0 for pids in found.values() for pid in pids):
            return found
        if time.monotonic() > deadline:
            raise RuntimeError("workers that have not begun within {} s: {}".format(_BEGUN_S, found))
        threading.Event().wait(_LOOK_S)


def wake_ups(pid: int, threads: str = "") -> int:
    """How often the threads of a process that live have run after a pause, or after another thread of the processor.

    Args:
        pid: of the process.
        threads: what the names of the threads that count begin with.
    """
    count = 0
    for folder in Path("/proc", str(pid), "task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            if (folder / "comm").read_text().startswith(threads):
                status = (folder / "status").read_text()
                count += sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches:" in line)
    return count


def children_of(pid: int) -> Dict[str, int]:
    """Process ids of the children of a process by what ``ps`` shows of them, up to " of "."""
    found: Dict[str, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == pid:
                title = (folder / "cmdline").read_bytes().split(b"\0")[0].decode("utf-8", "replace")
                found[title.replace("ascpipe: ", "").split(" of ")[0]] = int(folder.name)
    return found
