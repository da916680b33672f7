"""Tells a disk that is slow from one that does not answer any more.

A disk that is slow ends a call of the worker now and then, one of several that an operation may take: then it has any
time.  One that has ended none for ``disk_patience_s``, while a step waited for rows all the time and operations were
under way, is taken for dead.  Time in which nothing was looked at, as when the daemon itself was stopped, does not
count.
"""
from typing import Any, Mapping, Optional, Sequence

from ascpipe.errors import DiskSilentError

_LONGEST_LOOK_S = 2.0  # between two looks, as far as it counts: they come once a second

Lines = Sequence[Mapping[str, Any]]


class DiskSilence:
    """How long the disks of a session have kept a step waiting, and ended nothing.

    Attributes:
        seconds: of that.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._ended = (-1, -1)
        self._at = 0.0

    def look(self, disks: Lines, calls: int, now: float, *, is_awaited: bool) -> None:
        """Take what was seen now.

        Args:
            disks: lines of ``statistics.disks``.
            calls: ``transfers`` of the disk worker.
            now: seconds, monotonic.
            is_awaited: a step waits for rows, and the worker that is to bring them is not stopped.
        """
        ended = calls, sum(disk["rows_read"] + disk["rows_written"] for disk in disks)
        if is_awaited and ended == self._ended and any(disk["under_way"] for disk in disks):
            self.seconds += min(_LONGEST_LOOK_S, now - self._at)
        else:
            self.seconds = 0.0
        self._ended = ended
        self._at = now

    def sentence(self, disks: Lines) -> str:
        """Where operations are under way: ``"3 in /ssd0"``."""
        return ", ".join("{} in {}".format(disk["under_way"], disk["directory"]) for disk in disks if disk["under_way"])

    def verdict(self, disks: Lines, patience_s: float) -> Optional[DiskSilentError]:
        """The error that ends the session, once the disks were silent for too long; 0: never."""
        if not patience_s or self.seconds < patience_s:
            return None
        return DiskSilentError(self.seconds, self.sentence(disks))
