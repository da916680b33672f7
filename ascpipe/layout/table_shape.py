"""Where the parts of a table segment lie."""
from typing import NamedTuple

from ascpipe.layout.structs import DISK_READERS, DISK_READS, DISK_TABLE, ENTRY, IMAGE, PAGE, REQUEST, TABLE, align

_LEAST_IMAGES = 1 << 16  # some batches
_MOST_ASKS = 1 << 16


class TableShape(NamedTuple):
    """Where the pieces of a table segment lie, all in bytes.  Those that grow begin on a page."""

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
    """Offsets of a table segment.

    Args:
        device_rows: slots.
        entry_capacity: entries at most.
        home_capacity: home rows at most, 0 for a table on the device alone.
        row_floats: floats of a home row.
        disk_slots: at most, 0 for a table without rows on disk; then ``disk_offset`` and those after it mean nothing.
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
    """Numbers in the ring of requests of a table with rows on disk; a request that finds no room waits."""
    return min(_MOST_ASKS, 2 << max(0, home_capacity - 1).bit_length())


def log_capacity(entry_capacity: int) -> int:
    """Images that the log of a table holds at most: what training changes while a snapshot of it is copied."""
    return min(entry_capacity, max(_LEAST_IMAGES, entry_capacity // 16))
