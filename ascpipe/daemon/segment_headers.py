"""Functions that write the headers of new segments."""
from typing import Any, List, NamedTuple, Tuple

import numpy as np

from ascpipe.config import Settings
from ascpipe.control import messages
from ascpipe.daemon.ring_sizes import RingSizes
from ascpipe.layout import structs
from ascpipe.layout.ring_shape import RingShape
from ascpipe.layout.table_shape import TableShape, asks_room, log_capacity, table_shape
from ascpipe.shm import segment


class Segment(NamedTuple):
    """Mapped segment: descriptor (owned by the supervisor), size in bytes, and memory as uint8[size]."""

    fd: int
    size: int
    array: Any

    def view(self, struct: np.dtype, offset: int = 0, count: int = 1) -> Any:
        """Return a writable view of ``count`` structs that begin at byte ``offset``."""
        return self.array[offset:offset + count * struct.itemsize].view(struct)


#: Number of entries for keys of batches in flight (the window) that have no row. Unused entries occupy no memory.
_WINDOW_ENTRIES = 1 << 22
#: Number of keys that admission counts per row of the table.
_COUNTED_PER_ROW = 8
_MAX_ENTRIES = 2**31 - 1


def entry_capacity(table: messages.Table) -> int:
    """Return the maximum number of entries of a table.

    A table needs entries for keys with a row, for keys that are only counted, and for new keys.
    """
    rows = max(table.device_rows, table.home_rows, table.disk_rows)
    if table.access_threshold >= 0:
        rows *= _COUNTED_PER_ROW
    return min(_MAX_ENTRIES, rows + max(_WINDOW_ENTRIES, rows // 8))


def shape_of(table: messages.Table) -> TableShape:
    """Return the offsets of all arrays in a table's segment."""
    return table_shape(table.device_rows, entry_capacity(table), table.home_rows, table.row_floats, table.disk_rows)


def write_session(made: Segment, run: int, rings: RingSizes) -> None:
    """Write the header of the session segment."""
    header = made.view(structs.SESSION)[0]
    for record in made.view(structs.BELL, structs.SESSION_BELLS_OFFSET, structs.BELLS):
        record["waits_table"] = -1
    header["magic"] = structs.MAGIC
    header["run"] = run
    header["rings_ample"] = rings.ample
    header["rings_most"] = rings.most
    header["is_private"] = rings.private
    header["version"] = structs.VERSION


def write_ring(made: Segment, shape: RingShape, present: int, stream: messages.Stream,
               settings: Settings) -> None:
    """Write the header of a ring with ``present`` bytes of memory."""
    fields: List[Tuple[str, int]] = [
        ("magic", structs.MAGIC), ("stream", stream.stream), ("channel", stream.channel),
        ("rank_size", stream.rank_size), ("frame_count", settings.ring_frames), ("table_count", len(stream.tables)),
        ("look_ahead", settings.look_ahead), ("plan_ahead", settings.plan_ahead),
        ("arena_offset", shape.arena_offset), ("arena_bytes", present - shape.arena_offset),
        ("frames_offset", shape.frames_offset), ("tables_offset", shape.tables_offset),
    ]
    places = made.view(structs.RING_TABLE, shape.tables_offset, len(stream.tables))
    for place, table in zip(places, stream.tables):
        place["table"] = table
        place["worker"] = settings.table_worker_of(table)
    _write_header(made.view(structs.RING)[0], fields)


def write_table(made: Segment, shape: TableShape, table: messages.Table) -> None:
    """Initialize a table's segment: mark all slots as empty, write the fields for rows on disk, and the header last."""
    slots = made.view(np.dtype("<i4"), shape.slots_offset, table.device_rows)
    slots[:] = -1
    if table.disk_rows:
        for begin, end in ((shape.disk_offset, shape.requests_offset), (shape.reads_offset, shape.total_bytes)):
            segment.fill(made.fd, begin, end - begin, "requests of table {!r}".format(table.name))
        disk = made.view(structs.DISK_TABLE, shape.disk_offset)[0]
        for name, value in (
                ("disk_slots", table.disk_rows), ("asks_room", asks_room(table.home_rows)),
                ("asks_offset", shape.asks_offset), ("requests_offset", shape.requests_offset), ("epoch", 1),
                ("reads_offset", shape.reads_offset), ("read_rows_offset", shape.read_rows_offset)):
            disk[name] = value
    _write_header(made.view(structs.TABLE)[0], [
        ("magic", structs.MAGIC), ("table", table.table), ("dim", table.dim), ("device_rows", table.device_rows),
        ("entry_capacity", entry_capacity(table)), ("entries_offset", shape.entries_offset),
        ("slots_offset", shape.slots_offset), ("home_offset", shape.home_offset), ("home_capacity", table.home_rows),
        ("row_floats", table.row_floats), ("log_offset", shape.log_offset),
        ("log_capacity", log_capacity(entry_capacity(table))),
        ("access_threshold", table.access_threshold), ("counting", 1),
        ("faae_coefficient", table.faae_coefficient), ("eviction_threshold", table.eviction_threshold),
        ("disk_offset", shape.disk_offset if table.disk_rows else 0),
    ])


def _write_header(header: Any, fields: List[Tuple[str, int]]) -> None:
    for name, value in fields:
        header[name] = value
    header["version"] = structs.VERSION  # written last, because readers check the version before they read other fields
