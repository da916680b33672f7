"""Scale time limits on a busy machine, so that only a test that hangs reaches its limit."""
import os


def factor(load: float, cores: int) -> float:
    """Return by how much to multiply a limit: the number of runnable processes per core, and at least 1.

    Args:
        load: load average of the last minute.
        cores: number of cores that this process may use.
    """
    return max(1.0, load / cores)


def current() -> float:
    """Return the factor of this machine at this moment."""
    return factor(os.getloadavg()[0], len(os.sched_getaffinity(0)))
