"""Class ``DiskSilence``, which detects disks that no longer respond.

A slow disk still completes system calls of the disk worker, and is not an error. A disk is dead if it completes no call
for ``disk_patience_s`` while operations are in flight and a step waits for rows. Time without observations, for example
while the daemon was stopped, is not counted.
"""
from typing import Any, Mapping, Optional, Sequence

from ascpipe.errors import DiskSilentError

_LONGEST_LOOK_S = 2.0  # maximum time counted between two observations; the daemon observes once per second

Lines = Sequence[Mapping[str, Any]]


class DiskSilence:
    """Timer that runs while a step waits for rows and no disk operation of the session completes.

    Attributes:
        seconds: current duration.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._ended = (-1, -1)
        self._at = 0.0

    def look(self, disks: Lines, calls: int, now: float, *, is_awaited: bool) -> None:
        """Process one observation.

        Args:
            disks: lines of ``statistics.disks``.
            calls: ``transfers`` of the disk worker.
            now: seconds, monotonic.
            is_awaited: whether a step waits for rows and the disk worker is not stopped.
        """
        ended = calls, sum(disk["rows_read"] + disk["rows_written"] for disk in disks)
        if is_awaited and ended == self._ended and any(disk["under_way"] for disk in disks):
            self.seconds += min(_LONGEST_LOOK_S, now - self._at)
        else:
            self.seconds = 0.0
        self._ended = ended
        self._at = now

    def sentence(self, disks: Lines) -> str:
        """Return the number of disk operations in flight per directory as text, for example ``"3 in /ssd0"``."""
        return ", ".join("{} in {}".format(disk["under_way"], disk["directory"]) for disk in disks if disk["under_way"])

    def verdict(self, disks: Lines, patience_s: float) -> Optional[DiskSilentError]:
        """Return the error that ends the session if the disks did not respond for ``patience_s``. Otherwise return
        None. The result is always None if ``patience_s`` is 0.
        """
        if not patience_s or self.seconds < patience_s:
            return None
        return DiskSilentError(self.seconds, self.sentence(disks))
