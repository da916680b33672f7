"""Finds processes that hang: those that are stopped, and those that are waited for and use no processor time.

It does no I/O and reads no clock.  To end a worker that is well costs a tenth of a second and changes no result, so a
wrong verdict does no harm.
"""
from typing import Dict, FrozenSet, Hashable, Mapping, NamedTuple, Tuple

from ascpipe.config import Settings
from ascpipe.daemon.worker_identity import DISK_WORKER, KEY, TABLE, Worker
from ascpipe.layout.words import WAIT_CUT, WAIT_DISK, WAIT_KEYS, WAIT_PLAN, WAIT_READ

NAMED_AFTER_S = 5.0  #: a hang is written to the log then


def awaited(waits_for: int, table: int, settings: Settings) -> FrozenSet[Worker]:
    """The workers that a trainer waits for.

    The disk worker uses no processor time while it waits for a disk that is slow: of it, ``DiskSilence`` judges.

    Args:
        waits_for: WAIT_*, as the trainer's bell has it.
        table: number of the table, if it is one that it waits for.
        settings: of the daemon.
    """
    if waits_for == WAIT_KEYS:
        return frozenset(Worker(KEY, index) for index in range(settings.workers))
    if waits_for in (WAIT_PLAN, WAIT_READ, WAIT_CUT) and table >= 0:
        return frozenset([Worker(TABLE, settings.table_worker_of(table))])
    return frozenset([DISK_WORKER] if waits_for == WAIT_DISK else [])


class Seen(NamedTuple):
    """A process as it is now.

    Attributes:
        pid: of the process.
        ticks: processor time that it has used.
        is_stopped: by a signal.
        is_awaited: another process waits for what this one is to do.
    """

    pid: int
    ticks: int
    is_stopped: bool
    is_awaited: bool


class Hangs:
    """How long processes have hung."""

    def __init__(self) -> None:
        self._since: Dict[Hashable, Tuple[int, int, float]] = {}  # pid, ticks, time of the first look that found both

    def look(self, seen: Mapping[Hashable, Seen], now: float) -> Dict[Hashable, float]:
        """Take what was seen now.

        Args:
            seen: all that are watched; a process that is not in it is forgotten.
            now: seconds, monotonic.

        Returns:
            Seconds for which each has hung; those that do not are not in it.
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
