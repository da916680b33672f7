"""Kernels that store images (old versions of entries) for a snapshot.

An image is a copy of an entry, as the entry was at the start of the snapshot. The table worker stores the image before
a record changes the entry. The plain-Python version is ``tests/reference/images.py``.
"""
import numpy as np

from ascpipe.kernels.door import entry


@entry("int64(int32[::1], int64, uint8[::1])")
def count_unkept(changed, copied, marks):
    """Count the entries that need an image before they are changed.

    Args:
        changed: int32[n]; distinct entry numbers.
        copied: number of the first entry that the snapshot has not copied yet.
        marks: uint8[bound]; 1 if the entry has an image. Entries from ``bound`` on are not in the snapshot.

    Returns:
        Number of entries that need an image.
    """
    count = 0
    bound = marks.shape[0]
    for i in range(changed.shape[0]):
        number = changed[i]
        if copied <= number < bound and marks[number] == 0:
            count += 1
    return count


@entry("int64(int32[::1], int64, uint8[::1], Entry[::1], Image[::1], int64)")
def keep_images(changed, copied, marks, entries, log, end):
    """For each entry that needs an image, append an image to ``log`` and mark the entry.

    Args:
        changed: int32[n]; distinct entry numbers.
        copied: number of the first entry that the snapshot has not copied yet.
        marks: uint8[bound]; see ``count_unkept``.
        entries: ENTRY[capacity].
        log: IMAGE[capacity], with enough space.
        end: number of images in the log.

    Returns:
        The new number of images in the log.
    """
    bound = marks.shape[0]
    for i in range(changed.shape[0]):
        number = changed[i]
        if copied <= number < bound and marks[number] == 0:
            image = log[end]
            known = entries[number]
            image["entry"] = number
            image["key"] = known["key"]
            image["count"] = known["count"]
            image["timestamp"] = known["timestamp"]
            image["last"] = known["last"]
            image["slot"] = known["slot"]
            image["frequency"] = known["frequency"]
            image["state"] = known["state"]
            image["generation"] = known["generation"]
            image["home"] = known["home"]
            marks[number] = np.uint8(1)
            end += 1
    return end


@entry("void(Image[::1], int64, uint8[::1])")
def mark_kept(log, end, marks):
    """Mark the entries that already have an image.

    Args:
        log: IMAGE[capacity].
        end: number of images in the log.
        marks: uint8[bound].
    """
    for i in range(end):
        marks[log[i]["entry"]] = np.uint8(1)
