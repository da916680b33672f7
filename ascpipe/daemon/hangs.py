"""Class ``Hangs``, which detects processes that hang.

A process hangs if a signal has stopped it, or if another process waits for it and it uses no processor time. The module
does no I/O and reads no clock. A wrong verdict is harmless, because restarting a healthy worker needs only 0.1 s and
changes no result.
"""
from typing import Dict, FrozenSet, Hashable, Mapping, NamedTuple, Tuple

from ascpipe.config import Settings
from ascpipe.daemon.worker_identity import DISK_WORKER, KEY, TABLE, Worker
from ascpipe.layout.words import WAIT_CUT, WAIT_DISK, WAIT_KEYS, WAIT_PLAN, WAIT_READ

LOG_AFTER_S = 5.0  #: a hang is logged after this time


def awaited(waits_for: int, table: int, settings: Settings) -> FrozenSet[Worker]:
    """Return the workers for which the trainer waits.

    Args:
        waits_for: WAIT_*, from the trainer's bell.
        table: number of the table for which the trainer waits, or -1.
    """
    if waits_for == WAIT_KEYS:
        return frozenset(Worker(KEY, index) for index in range(settings.workers))
    if waits_for in (WAIT_PLAN, WAIT_READ, WAIT_CUT) and table >= 0:
        return frozenset([Worker(TABLE, settings.table_worker_of(table))])
    return frozenset([DISK_WORKER] if waits_for == WAIT_DISK else [])


class Seen(NamedTuple):
    """Observed state of a process.

    Attributes:
        ticks: processor time that the process has used.
        is_stopped: whether a signal has stopped the process.
        is_awaited: whether another process waits for the work of this process.
    """

    pid: int
    ticks: int
    is_stopped: bool
    is_awaited: bool


class Hangs:
    """Detector of processes that hang. The detector measures for how long each process has hung."""

    def __init__(self) -> None:
        self._since: Dict[Hashable, Tuple[int, int, float]] = {}  # pid, ticks, time of their first observation

    def look(self, seen: Mapping[Hashable, Seen], now: float) -> Dict[Hashable, float]:
        """Process one observation.

        Args:
            seen: all watched processes. The object forgets processes that are missing.
            now: seconds, monotonic.

        Returns:
            A map from each hanging process to the time in seconds for which it has hung.
        """
        before, self._since = self._since, {}
        hanging = {}
        for name, process in seen.items():
            if not (process.is_stopped or process.is_awaited):
                continue
            pid, ticks, since = before.get(name, (0, 0, now))
            if (pid, ticks) != (process.pid, process.ticks):
                since = now
            self._since[name] = process.pid, process.ticks, since
            if now > since:
                hanging[name] = now - since
        return hanging
