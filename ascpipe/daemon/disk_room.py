"""Whether disks have room for all rows that tables may send to them."""
import os
from typing import Iterable, Mapping, NamedTuple, Optional

from ascpipe.control import messages
from ascpipe.disk.row_engine import RowFile
from ascpipe.errors import RowFileError
from ascpipe.layout.row_blocks import file_bytes


class Need(NamedTuple):
    """What a row file still may grow.

    Attributes:
        disk: number of the device that it lies on.
        bytes: of growth.
    """

    disk: int
    bytes: int


class Shortage(NamedTuple):
    """A disk without room.

    Attributes:
        disk: its number.
        need, free: bytes.
    """

    disk: int
    need: int
    free: int


def shortage(needs: Iterable[Need], free: Mapping[int, int]) -> Optional[Shortage]:
    """The first disk that lacks room for what files on it may grow; None: all have it.

    Args:
        free: of each disk, bytes.
    """
    total = dict.fromkeys(free, 0)
    for need in needs:
        total[need.disk] += need.bytes
    return next((Shortage(disk, need, free[disk]) for disk, need in total.items() if need > free[disk]), None)


def require_room(table: messages.Table, files: Mapping[int, Iterable[RowFile]],
                 tables: Mapping[int, messages.Table]) -> None:
    """Refuse a table whose rows, with those of all others, have no room on its disks.

    Args:
        table: which is added.
        files: of each table, by its number; ``table`` has them, too.
        tables: by number.

    Raises:
        RowFileError: it names directory, need and room.
    """
    needs = []
    free = {}
    directories = {}
    for number, of_table in files.items():
        made = list(of_table)
        for file in made:
            status = os.fstat(file.fd)
            disk = os.fstatvfs(file.fd)
            grown = file_bytes(tables[number].disk_rows, 4 * tables[number].row_floats, len(made))
            needs.append(Need(status.st_dev, max(0, grown - status.st_size)))
            free[status.st_dev] = disk.f_bavail * disk.f_frsize
            if number == table.table:
                directories[status.st_dev] = file.directory
    found = shortage(needs, free)
    if found is not None and found.disk in directories:
        raise RowFileError(table.name, directories[found.disk], "with all tables, rows may take {} bytes more on its "
                           "disk, and {} are free; lower ssd_vocabulary_size".format(found.need, found.free))
