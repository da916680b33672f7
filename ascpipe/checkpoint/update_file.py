"""Update files, from which servers load new rows. A file contains the changed rows or all rows of a checkpoint.

``tfops/src/core/update_file.h`` describes the layout. Each file contains all tables, so one rename publishes the
changes of all tables together.
"""
import contextlib
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
from isal import isal_zlib

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.table_file import Source, write_table

HEADER = np.dtype({
    "names": ["magic", "version", "is_full", "sequence", "base_step", "step", "base_id", "id", "table_count"],
    "formats": ["S8", "<u4", "<u4", "<i8", "<i8", "<i8", "V32", "V32", "<i8"],
    "offsets": [0, 8, 12, 16, 24, 32, 40, 72, 104], "itemsize": 128})
TABLE = np.dtype([("name", "S128"), ("offset", "<i8"), ("bytes", "<i8"), ("seal", "<u4"), ("zero", "<u4"),
                  ("access_threshold", "<i8")])
MAGIC = b"ASCUPDAT"
VERSION = 1
TEMPORARY = ".tmp-"  #: prefix of the name of a file that is being written

_NAME = re.compile(r"update-([0-9]{16})\.(full|delta)")
_SECTION = 64  # alignment of tables in bytes
_SUM_BYTES = 4
_MAX_TABLES = 4096


class Version(NamedTuple):
    """Identification of the rows of all tables after a training step.

    Attributes:
        step: training step.
        checkpoint: digest of the manifest of the checkpoint with these rows, 64 hexadecimal digits.
    """

    step: int
    checkpoint: str


class Update(NamedTuple):
    """Content of an update file's header.

    Attributes:
        sequence: number that increases with each update of a directory.
        base: version to which the changes apply, or None for an update with all rows (a full update).
        version: version of the rows after the update.
        thresholds: access threshold by table name.
    """

    sequence: int
    base: Optional[Version]
    version: Version
    thresholds: Dict[str, int]

    @property
    def name(self) -> str:
        """Return the name of the update file."""
        return "update-{:016d}.{}".format(self.sequence, "full" if self.base is None else "delta")


class Written(NamedTuple):
    """Properties of an update that was written.

    Attributes:
        rows: number of rows of all tables.
        deleted: number of deleted keys of all tables.
        size: bytes of the file.
    """

    rows: int
    deleted: int
    size: int


def sequences(names: List[str]) -> Dict[str, Tuple[int, bool]]:
    """Return a dict from the name of each update to (sequence, whether the update is full), sorted by sequence."""
    found = {name: _NAME.fullmatch(name) for name in sorted(names, key=lambda name: name[:23])}
    return {name: (int(match.group(1)), match.group(2) == "full") for name, match in found.items() if match}


def write_update(directory_fd: int, update: Update, tables: Dict[str, Source]) -> Written:
    """Write an update durably and atomically. ``tables`` and ``update.thresholds`` must contain the same table names.

    Raises:
        OSError: a system call failed; the file is removed.
    """
    temporary = TEMPORARY + update.name
    mode = 0o666  # the umask applies, as for files of a SavedModel
    with disk.closing(disk.create_file(directory_fd, temporary, mode)) as fd:
        try:
            written = _write(fd, update, tables)
            disk.sync(fd)
            disk.rename(directory_fd, temporary, update.name)
        except BaseException:
            with contextlib.suppress(OSError):  # keep the first error
                disk.try_unlink(directory_fd, temporary)
            raise
    disk.sync(directory_fd)
    return written


def read_update(directory_fd: int, name: str) -> Update:
    """Read and verify the header of an update file. The tables are not read.

    Raises:
        OSError: the file cannot be read.
        ValueError: the header is damaged, or belongs to another name.
    """
    with disk.closing(disk.open_file(directory_fd, name)) as fd:
        header = np.empty((), HEADER)
        disk.read_into(fd, 0, header.reshape(1).view(np.uint8))
        count = int(header["table_count"])
        if header["magic"] != MAGIC or header["version"] != VERSION or not 0 <= count <= _MAX_TABLES:
            raise ValueError("it is not an update of version {}".format(VERSION))
        content = bytearray(HEADER.itemsize + count * TABLE.itemsize + _SUM_BYTES)
        disk.read_into(fd, 0, content)
    if isal_zlib.crc32(content[:-_SUM_BYTES]) != int.from_bytes(content[-_SUM_BYTES:], "little"):
        raise ValueError("the checksum of its header does not match")
    tables = np.frombuffer(bytes(content), TABLE, count, HEADER.itemsize)
    found = Update(
        int(header["sequence"]),
        None if header["is_full"] else Version(int(header["base_step"]), header["base_id"].tobytes().hex()),
        Version(int(header["step"]), header["id"].tobytes().hex()),
        {table["name"].decode("ascii"): int(table["access_threshold"]) for table in tables})
    if found.name != name:
        raise ValueError("it was written as {}".format(found.name))
    return found


def _write(fd: int, update: Update, tables: Dict[str, Source]) -> Written:
    entries = np.zeros(len(tables), TABLE)
    disk.write_all(fd, bytes(HEADER.itemsize + entries.nbytes + _SUM_BYTES))
    rows = 0
    for entry, (name, source) in zip(entries, tables.items()):
        disk.write_all(fd, bytes(-disk.stamp(fd).size % _SECTION))
        offset = disk.stamp(fd).size
        written = write_table(fd, source)
        rows += written.rows
        entry["name"] = name.encode("ascii")
        entry["offset"] = offset
        entry["bytes"] = disk.stamp(fd).size - offset
        entry["seal"] = written.seal
        entry["access_threshold"] = update.thresholds[name]
    head = _header(update, len(tables)).tobytes() + entries.tobytes()
    disk.write_at(fd, 0, head + isal_zlib.crc32(head).to_bytes(_SUM_BYTES, "little"))
    return Written(rows, sum(len(source.deleted) for source in tables.values()), disk.stamp(fd).size)


def _header(update: Update, tables: int) -> Any:
    header = np.zeros((), HEADER)
    header["magic"] = MAGIC
    header["version"] = VERSION
    header["is_full"] = update.base is None
    header["sequence"] = update.sequence
    header["base_step"] = -1 if update.base is None else update.base.step
    header["step"] = update.version.step
    if update.base is not None:
        header["base_id"] = np.void(bytes.fromhex(update.base.checkpoint))
    header["id"] = np.void(bytes.fromhex(update.version.checkpoint))
    header["table_count"] = tables
    return header
