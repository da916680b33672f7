"""Keeps images for a snapshot of a table: entries as they were before a record changed them, while they are copied.

Which entries have an image is private, and derived from the log for each snapshot.  So the successor of a dead worker,
which assigns again what may be assigned in part, never mistakes a changed entry for its image.
"""
from typing import Any, Callable

import numpy as np

from ascpipe.kernels.images import count_unkept, keep_images, mark_kept
from ascpipe.kernels.records import Record
from ascpipe.tables import lazy_arrays

NO_ROOM = -1  #: instead of how many images there are

_NO_MARKS = np.zeros(0, np.uint8)


class Images:
    """The log of one table.

    Args:
        header: the TABLE fields by name; read only.
        entries: ENTRY[capacity].
        log: IMAGE[log capacity].
        ready_log: ensures memory for a number of images; returns False when out of memory.
    """

    def __init__(self, header: Any, entries: np.ndarray, log: np.ndarray, ready_log: Callable[[int], bool]) -> None:
        self._header = header
        self._entries = entries
        self._log = log
        self._ready_log = ready_log
        self._marks = _NO_MARKS
        self._marked_for = 0  # no snapshot has this number

    def append(self, record: Record, copied: int) -> int:
        """Write an image of each entry that a record changes and that is neither copied nor has an image.

        Args:
            record: about to be assigned.
            copied: the snapshot, which goes on, has its copy of the entries below.

        Returns:
            How many images are in the log then, to be published before the first change; NO_ROOM if they do not all
            fit, or there is no memory for them, and then nothing of the record may be assigned.
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
