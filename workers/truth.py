"""Makes the truth of a table from its segment."""
from ascpipe.shm.ring import TableView
from ascpipe.tables.records import Truth


def truth_of(view: TableView) -> Truth:
    """Return the truth of a table segment."""
    return Truth(view.header, view.header_at, view.entries, view.slot_entries, view.ready_entries, view.ready_homes)
