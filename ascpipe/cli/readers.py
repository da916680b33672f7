"""Functions that read a table of a running daemon, for ``ascpipe inspect`` and ``ascpipe hotkeys``."""
import contextlib
import functools
import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

import click

from ascpipe.cli.chosen import chosen
from ascpipe.control import messages
from ascpipe.control.client import ask, asked
from ascpipe.errors import MessageError, WrongStateError
from ascpipe.shm.table_reader import RingReader, TableReader


@contextlib.contextmanager
def table_reader(name: Optional[str], table: str) -> Iterator[Tuple[TableReader, Dict[str, Any]]]:
    """Context manager that yields a reader of a table, and the table's entry in the answer to ``status``.

    The entry also has the path ``eviction_log``, which is an empty string if there is no log.

    Raises:
        click.BadParameter: the session has no such table. The message lists the tables of the session.
        WrongStateError: there is no session.
    """
    run = chosen(name)
    status = ask(run, messages.Status())
    tables = {one["name"]: one for one in status["tables"]}
    if not tables:
        raise WrongStateError("read table {!r}".format(table), status["state"], "there is no session with tables")
    if table not in tables:
        raise click.BadParameter("there is no table {!r}; there {} {}".format(
            table, "is" if len(tables) == 1 else "are", ", ".join(sorted(tables))), param_hint="TABLE")
    with asked(run, messages.ReadTable(table)) as (where, fds):
        if len(fds) != 1 + len(where["rings"]):
            raise MessageError("the daemon sent {} descriptors; expected {}".format(len(fds), 1 + len(where["rings"])))
        yield TableReader(table, read_of(fds[0]), where["entries_offset"], where["capacity"], [
            RingReader(read_of(fd), ring["bytes"], ring["tables"], ring["column"])
            for fd, ring in zip(fds[1:], where["rings"])]), {**tables[table], "eviction_log": where["eviction_log"]}


def read_of(fd: int) -> Any:
    """Return a function that reads a segment: the function takes an offset and a size, and returns bytes."""
    return functools.partial(_read, fd)


def _read(fd: int, offset: int, size: int) -> bytes:
    parts: List[bytes] = []
    while size > 0:
        part = os.pread(fd, size, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        size -= len(part)
    return b"".join(parts)
