"""Functions that prepare a table before the trainer loads content into it, and that publish the loaded content.

The first R of N entries have rows. Entry i has home row i, or slot i if the table has no home rows.
"""
from ascpipe.kernels.retire import occupy_slots
from ascpipe.layout.words import FREE, HOME_NONE, PLAN_HOST_FULL, PLAN_NO_MEMORY, PLAN_OK, PLAN_TABLE_FULL
from ascpipe.tables.records import Truth

NOT_WRITTEN = -1  #: number of written entries after a failure


def make_room(truth: Truth, entries: int, rows: int) -> int:
    """Allocate memory for entries and rows. The content of the table is not changed.

    Args:
        truth: shared memory of the table.
        entries: number of entries that will be written.
        rows: number of entries with a row.

    Returns:
        PLAN_OK, or the status of the failure: the table is full or memory is exhausted.
    """
    home_rows = int(truth.header["home_capacity"])
    most = len(truth.slot_entries) if home_rows == 0 else home_rows
    if truth.disk_table is not None:
        most = int(truth.disk_table["disk_slots"])  # each row needs a disk slot, because a fetched row keeps its slot
    if not 0 <= rows <= entries <= len(truth.entries) or rows > most:
        return PLAN_HOST_FULL if home_rows else PLAN_TABLE_FULL
    if not truth.ready_entries(entries) or (
            home_rows and not truth.ready_homes(min(rows, home_rows))):
        return PLAN_NO_MEMORY
    return PLAN_OK


def take_over(truth: Truth, room: int) -> bool:
    """Publish the entries that the trainer wrote to an empty table. The caller must then rebuild the private state.

    Args:
        truth: shared memory of the table.
        room: number of allocated entries. If fewer entries were written, the load has failed, and the table
            stays empty and keeps its settings.

    Returns:
        Whether all entries were written.
    """
    header = truth.header
    written = room if header["load_entries"] == room else 0
    if not written and truth.disk_table is not None:
        # The failed load may have written rows to disk. The next load writes other rows to the same disk slots, so the
        # trailers must differ: otherwise, a lost write of the next load would not be detected.
        truth.entries["generation"][:room] += 1
        truth.entries["home"][:room] = HOME_NONE
    truth.entries["state"][written:room] = FREE  # otherwise, a key of these entries would have an untrained row
    occupy_slots(written, truth.entries, truth.slot_entries)
    if header["load_entries"] == room:
        header["time"] = header["load_time"]
        header["access_threshold"] = header["load_threshold"]
        header["counting"] = header["load_counting"]
    header["entries_used"] = written  # stored last, since it publishes the entries
    return written == room
