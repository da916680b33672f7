"""Keeps images of entries for a snapshot: the content of entries before a record changes them during the copy.

The set of entries with an image is private and derived from the log for each snapshot. A restarted worker repeats
partial assignments, and therefore cannot mistake a changed entry for its image.
"""
from typing import Any, Callable

import numpy as np

from ascpipe.kernels.images import count_unkept, keep_images, mark_kept
from ascpipe.kernels.records import Record
from ascpipe.tables import lazy_arrays

NO_ROOM = -1  #: returned instead of the number of images

_NO_MARKS = np.zeros(0, np.uint8)


class Images:
    """Image log of one table.

    Args:
        header: the TABLE fields by name; read only.
        entries: ENTRY[capacity].
        log: IMAGE[log capacity].
        ready_log: allocates memory for a number of images; returns False if out of memory.
    """

    def __init__(self, header: Any, entries: np.ndarray, log: np.ndarray, ready_log: Callable[[int], bool]) -> None:
        self._header = header
        self._entries = entries
        self._log = log
        self._ready_log = ready_log
        self._marks = _NO_MARKS
        self._marked_for = 0  # no snapshot has this number

    def append(self, record: Record, copied: int) -> int:
        """Log an image of each entry that the record changes, if it is neither copied nor logged.

        Args:
            record: record to be assigned next.
            copied: the running snapshot has copied the entries below this number.

        Returns:
            The number of images in the log, to be published before the first change. NO_ROOM if the log is full or
            out of memory; then no part of the record may be assigned.
        """
        if self._marked_for != self._header["snapshot_asked"]:  # SYNC snapshot-asked: load
            self._mark()
        end = int(self._header["snapshot_logged"])
        need = sum(int(count_unkept(changed, copied, self._marks)) for changed in (record.held, record.out_entries))
        if need == 0:
            return end
        if not self._ready_log(end + need):
            return NO_ROOM
        for changed in (record.held, record.out_entries):
            end = int(keep_images(changed, copied, self._marks, self._entries, self._log, end))
        return end

    def forget(self) -> None:
        """Free the private memory after a snapshot."""
        self._marks = _NO_MARKS
        self._marked_for = 0

    def _mark(self) -> None:
        self._marks = lazy_arrays.zeros(int(self._header["snapshot_bound"]), np.uint8)
        mark_kept(self._log, int(self._header["snapshot_logged"]), self._marks)
        self._marked_for = int(self._header["snapshot_asked"])
