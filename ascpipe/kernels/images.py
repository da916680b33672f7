"""Images: entries as they were when a snapshot of the table began, kept before a record changes them.

The readable version is ``tests/reference/images.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.entry import IMAGE_CONTENT, IMAGE_ENTRY, INT64_COLUMNS


@njit("int64(int32[::1], int64, uint8[::1])", cache=True, nogil=True)
def count_unkept(changed, copied, marks):
    """How many entries need an image before they change.

    Args:
        changed: int32[n]; distinct entry numbers.
        copied: the snapshot has its copy of the entries below.
        marks: uint8[bound]; 1 = the entry has an image.  Entries from ``bound`` on are not of the snapshot.

    Returns:
        How many there are.
    """
    count = 0
    bound = marks.shape[0]
    for i in range(changed.shape[0]):
        entry = changed[i]
        if copied <= entry < bound and marks[entry] == 0:
            count += 1
    return count


@njit("int64(int32[::1], int64, uint8[::1], int64[:, ::1], int64[:, ::1], int64)", cache=True, nogil=True)
def keep_images(changed, copied, marks, entries, log, end):
    """Append an image of each entry that needs one to the log, and mark it.

    Args:
        changed: int32[n]; distinct entry numbers.
        copied: the snapshot has its copy of the entries below.
        marks: uint8[bound]; as in ``count_unkept``.
        entries: int64[capacity, 6]; the table's.
        log: int64[capacity, 7]; an entry's number and the entry in each row, with room.
        end: images that are in the log.

    Returns:
        How many are in the log then.
    """
    bound = marks.shape[0]
    for i in range(changed.shape[0]):
        entry = changed[i]
        if copied <= entry < bound and marks[entry] == 0:
            log[end, IMAGE_ENTRY] = entry
            for column in range(INT64_COLUMNS):
                log[end, IMAGE_CONTENT + column] = entries[entry, column]
            marks[entry] = np.uint8(1)
            end += 1
    return end


@njit("void(int64[:, ::1], int64, uint8[::1])", cache=True, nogil=True)
def mark_kept(log, end, marks):
    """Mark the entries that have an image already.

    Args:
        log: int64[capacity, 7].
        end: images that are in it.
        marks: uint8[bound].
    """
    for i in range(end):
        marks[log[i, IMAGE_ENTRY]] = np.uint8(1)
