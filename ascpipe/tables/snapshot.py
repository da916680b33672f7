"""Class ``Images``, which logs old versions of entries (images) while a snapshot is taken.

While the trainer copies the entries of a table, the table worker stores an image of each uncopied entry before a record
changes the entry.

The set of entries with an image is private and is derived from the log for each snapshot. A restarted worker repeats
partial assignments. Because it derives the set from the log, it does not store a changed entry as an image.
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
        header: TABLE, with its fields by name. It is only read.
        entries: ENTRY[capacity].
        log: IMAGE[log capacity].
        ready_log: function that allocates memory for a number of images, and returns False if memory is exhausted.
    """

    def __init__(self, header: Any, entries: np.ndarray, log: np.ndarray, ready_log: Callable[[int], bool]) -> None:
        self._header = header
        self._entries = entries
        self._log = log
        self._ready_log = ready_log
        self._marks = _NO_MARKS
        self._marked_for = 0  # no snapshot has the number 0

    def append(self, record: Record, copied: int) -> int:
        """For each entry that the record changes, append an image to the log.

        Skip entries that the trainer has already copied, and entries that already have an image.

        Args:
            record: record that will be assigned next.
            copied: number of the first entry that the running snapshot has not copied.

        Returns:
            The number of images in the log. Publish this number before the first change of an entry. If the log is full
            or memory is exhausted, the function returns NO_ROOM, and no part of the record may be assigned.
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
