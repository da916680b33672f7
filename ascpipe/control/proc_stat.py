"""What the kernel tells of a process in /proc/PID/stat."""
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
