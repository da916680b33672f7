"""The shared memory of a table, as its decisions see it."""
from ascpipe.shm.ring import TableView
from ascpipe.tables.records import Truth


def truth_of(view: TableView) -> Truth:
    """The truth that lies in a table segment."""
    return Truth(view.header, view.header_at, view.entries, view.slot_entries, view.ready_entries, view.ready_homes)
