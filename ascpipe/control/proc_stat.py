"""State and counters of a process, from /proc/PID/stat and /proc/PID/io."""
from typing import NamedTuple, Optional


class ProcStat(NamedTuple):
    """State of a process.

    Attributes:
        state: R running, S sleeping, D waiting for I/O, T stopped by a signal, t stopped by a debugger, Z
            zombie, X dead.
        ticks: processor time used, in ticks of usually 10 ms.
    """

    state: str
    ticks: int

    @property
    def has_ended(self) -> bool:
        """Return True if the process has exited."""
        return self.state in ("Z", "X")

    @property
    def is_stopped(self) -> bool:
        """Return True if a signal has stopped the process."""
        return self.state == "T"


def read_stat(pid: int) -> Optional[ProcStat]:
    """Return the state of a process, or None if there is no such process."""
    try:
        with open("/proc/{}/stat".format(pid)) as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return ProcStat(fields[0], int(fields[11]) + int(fields[12])) if len(fields) > 12 else None


def transfers(pid: int) -> int:
    """Return a number that increases with each completed read and write of a process, or 0 if the number is not
    available.
    """
    try:
        with open("/proc/{}/io".format(pid)) as file:
            return sum(int(line.split()[1]) for line in file)
    except (OSError, ValueError, IndexError):
        return 0
