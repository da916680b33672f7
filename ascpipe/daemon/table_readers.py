"""Function ``opened``, which provides read-only file descriptors of a table's memory for another process.

The daemon does not read the table itself, because reading a large table would block the daemon for too long.
"""
import contextlib
import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ascpipe.daemon.segment_headers import entry_capacity, shape_of
from ascpipe.daemon.session_memory import SessionMemory
from ascpipe.errors import WrongStateError
from ascpipe.layout.words import TRAIN


@contextlib.contextmanager
def opened(memory: Optional[SessionMemory], name: str, state: str) -> Iterator[Tuple[Dict[str, Any], List[int]]]:
    """Context manager that yields the reply to ``read_table``, and read-only file descriptors of the table's segments.

    The descriptors refer to the segment of the table and to the training rings that contain the table.

    Raises:
        WrongStateError: there is no session, or the session has no such table.
    """
    if memory is None:
        raise WrongStateError("read table {!r}".format(name), state, "there is no session")
    found = [(table, made) for table, made in zip(memory.start.tables, memory.tables) if table.name == name]
    if not found:
        raise WrongStateError("read table {!r}".format(name), state, "the session has no such table")
    table, made = found[0]
    rings = [(stream, ring) for stream, ring in zip(memory.start.streams, memory.rings)
             if stream.channel == TRAIN and table.table in stream.tables]
    body = {"entries_offset": shape_of(table).entries_offset, "capacity": entry_capacity(table),
            "eviction_log": memory.eviction_log,
            "rings": [{"bytes": ring.size, "tables": len(stream.tables), "column": stream.tables.index(table.table)}
                      for stream, ring in rings]}
    with contextlib.ExitStack() as stack:
        fds = []
        for segment in (made, *(ring for _, ring in rings)):
            fds.append(os.open("/proc/self/fd/{}".format(segment.fd), os.O_RDONLY | os.O_CLOEXEC))
            stack.callback(os.close, fds[-1])
        yield body, fds
