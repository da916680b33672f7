"""Prepares a table for a load, in which the trainer writes it, and takes over what was written.

The first R of N entries have rows: where there are home rows, entry i has home row i, else slot i.
"""
from ascpipe.kernels.retire import occupy_slots
from ascpipe.layout.words import FREE, PLAN_HOST_FULL, PLAN_NO_MEMORY, PLAN_OK, PLAN_TABLE_FULL
from ascpipe.tables.records import Truth

NOT_WRITTEN = -1  #: instead of how many entries were written


def make_room(truth: Truth, entries: int, rows: int) -> int:
    """Ensure memory for some entries and rows; what the table holds stays.

    Args:
        truth: of the table.
        entries: how many there will be.
        rows: how many of them have a row.

    Returns:
        PLAN_OK, or why they cannot be written: the kind of table is full, or there is no memory.
    """
    home_rows = int(truth.header["home_capacity"])
    most = len(truth.slot_entries) if home_rows == 0 else home_rows
    if truth.disk_table is not None:
        most = int(truth.disk_table["disk_slots"])  # one for each row, wherever it is: a fetched row keeps its own
    if not 0 <= rows <= entries <= len(truth.entries) or rows > most:
        return PLAN_HOST_FULL if home_rows else PLAN_TABLE_FULL
    if not truth.ready_entries(entries) or (
            home_rows and not truth.ready_homes(min(rows, home_rows))):
        return PLAN_NO_MEMORY
    return PLAN_OK


def take_over(truth: Truth, room: int) -> bool:
    """Make what was written into an empty table its truth.  Idempotent; the caller rebuilds what is private.

    Args:
        truth: of the table.
        room: entries that there was room for; fewer are written only if something failed, and then the table is
            empty and keeps its rules.

    Returns:
        Whether all of them were written.
    """
    header = truth.header
    written = room if header["load_entries"] == room else 0
    truth.entries["state"][written:room] = FREE  # or a key named there would find what it never trained
    occupy_slots(written, truth.entries, truth.slot_entries)
    if header["load_entries"] == room:
        header["time"] = header["load_time"]
        header["access_threshold"] = header["load_threshold"]
        header["counting"] = header["load_counting"]
    header["entries_used"] = written  # last: now they are seen
    return written == room
