"""What each process takes, from /proc, as lines of JSON in a file."""
import json
import os
import re
import time
from typing import Any, Dict, List, NamedTuple, Optional, TextIO

_FIELDS = {"RssAnon": "anon_kib", "RssShmem": "shmem_kib", "Threads": "threads"}
_TICKS = os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    """A process at a moment.

    Attributes:
        at_s: since the beginning of the training.
        role: "supervisor", "template", "trainer", or a worker's name, as "table-0".
        pid: of the process.
        age_s: since the process began.
        anon_kib: anonymous memory in its resident set.
        shmem_kib: shared memory in its resident set.
        fds: descriptors that are open.
        maps: mappings.
        threads: of the process.
    """

    at_s: float
    role: str
    pid: int
    age_s: float
    anon_kib: int
    shmem_kib: int
    fds: int
    maps: int
    threads: int


MEASURED = ("anon_kib", "shmem_kib", "fds", "maps", "threads")


def look(role: str, pid: int, at_s: float) -> Optional[Sample]:
    """A process as it is now; None: it has ended, or is about to."""
    folder = "/proc/{}/".format(pid)
    try:
        status = _numbers(folder + "status")
        with open(folder + "stat") as file:
            began = int(file.read().rpartition(")")[2].split()[19]) / _TICKS
        with open(folder + "maps") as file:
            maps = sum(1 for _ in file)
        fds = len(os.listdir(folder + "fd"))
    except OSError:
        return None
    if set(status) != set(_FIELDS.values()) or not maps:  # a zombie has no memory
        return None
    return Sample(round(at_s, 2), role, pid, round(time.clock_gettime(time.CLOCK_BOOTTIME) - began, 2), fds=fds,
                  maps=maps, **status)


def _numbers(path: str) -> Dict[str, int]:
    with open(path) as file:
        return {_FIELDS[name]: int(number) for name, number in re.findall(r"^(\w+):\s+(\d+)", file.read(), re.M)
                if name in _FIELDS}


def write(file: TextIO, sample: Sample) -> None:
    """As a line, at once."""
    file.write(json.dumps(sample._asdict()) + "\n")
    file.flush()


def read(path: str) -> List[Sample]:
    """Those of a file."""
    with open(path) as file:
        lines: List[Dict[str, Any]] = [json.loads(line) for line in file]
    return [Sample(**line) for line in lines]
