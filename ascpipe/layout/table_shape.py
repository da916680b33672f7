"""Sizes and offsets of a table segment."""
from typing import NamedTuple

from ascpipe.layout.structs import DISK_READERS, DISK_READS, DISK_TABLE, ENTRY, IMAGE, PAGE, REQUEST, TABLE, align

_LEAST_IMAGES = 1 << 16  # enough images for several batches
_MOST_ASKS = 1 << 16


class TableShape(NamedTuple):
    """Offsets and size of a table segment, in bytes. Each array that can grow begins at a page boundary."""

    slots_offset: int
    entries_offset: int
    home_offset: int
    log_offset: int
    disk_offset: int
    asks_offset: int
    requests_offset: int
    reads_offset: int
    read_rows_offset: int
    total_bytes: int


def table_shape(device_rows: int, entry_capacity: int, home_capacity: int = 0, row_floats: int = 0,
                disk_slots: int = 0) -> TableShape:
    """Return the offsets of a table segment.

    Args:
        device_rows: number of slots.
        entry_capacity: maximum number of entries.
        home_capacity: maximum number of home rows, or 0 for a table that is only on the device.
        row_floats: floats of a home row.
        disk_slots: maximum number of disk slots, or 0 for a table without rows on disk. If 0, ``disk_offset``
            and later offsets are undefined.
    """
    slots = align(TABLE.itemsize)
    entries = align(slots + 4 * device_rows, PAGE)
    homes = align(entries + entry_capacity * ENTRY.itemsize, PAGE)
    log = align(homes + 4 * home_capacity * row_floats, PAGE)
    disk = align(log + log_capacity(entry_capacity) * IMAGE.itemsize, PAGE)
    asks = disk + DISK_TABLE.itemsize
    requests = align(asks + 4 * asks_room(home_capacity), PAGE)
    reads = align(requests + home_capacity * REQUEST.itemsize, PAGE)
    read_rows = reads + DISK_READERS * DISK_READS * REQUEST.itemsize
    end = align(read_rows + DISK_READERS * DISK_READS * 4 * row_floats, PAGE)
    return TableShape(slots, entries, homes, log, disk, asks, requests, reads, read_rows, end if disk_slots else disk)


def asks_room(home_capacity: int) -> int:
    """Return the capacity of the ring with the numbers of disk requests. If the ring is full, new requests wait."""
    return min(_MOST_ASKS, 2 << max(0, home_capacity - 1).bit_length())


def log_capacity(entry_capacity: int) -> int:
    """Return the maximum number of images in the log of a table.

    This number limits how many entries may change during a snapshot.
    """
    return min(entry_capacity, max(_LEAST_IMAGES, entry_capacity // 16))
