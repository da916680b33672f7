"""What the kernel tells of a process in /proc/PID/stat and /proc/PID/io."""
from typing import NamedTuple, Optional


class ProcStat(NamedTuple):
    """A process as it is now.

    Attributes:
        state: a letter: R runs, S sleeps, D waits for a disk, T stopped by a signal, t by a debugger, Z ended and not
            reaped, X gone.
        ticks: processor time that it has used, in ticks of 10 ms on most machines.
    """

    state: str
    ticks: int

    @property
    def has_ended(self) -> bool:
        """Whether it runs no code any more."""
        return self.state in ("Z", "X")

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it."""
        return self.state == "T"


def read_stat(pid: int) -> Optional[ProcStat]:
    """What the kernel tells of a process; None: there is none."""
    try:
        with open("/proc/{}/stat".format(pid)) as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return ProcStat(fields[0], int(fields[11]) + int(fields[12])) if len(fields) > 12 else None


def transfers(pid: int) -> int:
    """A number that grows with every read and write that a thread of the process has ended; 0: it cannot be seen."""
    try:
        with open("/proc/{}/io".format(pid)) as file:
            return sum(int(line.split()[1]) for line in file)
    except (OSError, ValueError, IndexError):
        return 0
