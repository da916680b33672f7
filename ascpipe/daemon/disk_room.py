"""Functions that check whether disks have enough free space for all rows that tables may write."""
import os
from typing import Iterable, Mapping, NamedTuple, Optional

from ascpipe.control import messages
from ascpipe.disk.row_engine import RowFile
from ascpipe.errors import RowFileError
from ascpipe.layout.row_blocks import file_bytes


class Need(NamedTuple):
    """Maximum growth of a row file in bytes, and the device number of the file's disk."""

    disk: int
    bytes: int


class Shortage(NamedTuple):
    """A disk with too little free space: device number, required bytes and free bytes."""

    disk: int
    need: int
    free: int


def shortage(needs: Iterable[Need], free: Mapping[int, int]) -> Optional[Shortage]:
    """Return the first disk with too little free space for its row files, or None if all disks have enough space."""
    total = dict.fromkeys(free, 0)
    for need in needs:
        total[need.disk] += need.bytes
    return next((Shortage(disk, need, free[disk]) for disk, need in total.items() if need > free[disk]), None)


def require_room(table: messages.Table, files: Mapping[int, Iterable[RowFile]],
                 tables: Mapping[int, messages.Table]) -> None:
    """Raise an error if the disks on which a new table stores rows have too little space for all tables.

    Args:
        table: the new table.
        files: row files by table number, including the files of ``table``.
        tables: tables by number.

    Raises:
        RowFileError: a disk has too little free space.
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
        raise RowFileError(
            table.name, directories[found.disk], "the rows of all tables may take {} more bytes on its disk, but {} "
            "are free; lower ssd_vocabulary_size".format(found.need, found.free))
