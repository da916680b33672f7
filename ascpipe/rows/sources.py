"""Files with rows to import, in any format."""
import os
import stat
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import FLOAT_BYTES, INT_BYTES, TableSpec
from ascpipe.checkpoint.errors import DamagedRowsError, RowsNotImportedError
from ascpipe.checkpoint.memory_room import memory_for
from ascpipe.rows.columns import COUNT, KEY, ROW, SLOT, TIMESTAMP

_PART_BYTES = 4 << 20
_MOST_ROWS = 1 << 16


class Part(NamedTuple):
    """Consecutive rows of a source.

    Attributes:
        values: int64[n] of ``key``, ``count`` and ``timestamp``, and float32[n, width] of ``row`` and slots, by column.
        place: function that returns a description of the location of a row, given the index of the row in the part.
    """

    values: Dict[str, np.ndarray]
    place: Callable[[int], str]

    @property
    def keys(self) -> np.ndarray:
        """Return the keys as int64[n]."""
        return self.values[KEY]


class Source:
    """Base class of files with rows. The caller must close the object or use ``with``.

    Attributes:
        path: path that the user passed.
        columns: names of the columns of the files that are imported: ``key``, ``row``, and others on request.
        titles: for columns of another name in the files, the name in the files.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.columns: List[str] = []
        self.titles: Dict[str, str] = {}
        self._files: List[Tuple[str, int, disk.Stamp]] = []

    def parts(self, columns: Sequence[str]) -> Iterator[Part]:
        """Yield the rows in the order of the files, in parts of about 4 MiB.

        Args:
            columns: columns to read besides ``key``.

        Raises:
            RowsNotImportedError: rows do not fit the table. All files were read, so the error contains the number of
                these rows.
            DamagedRowsError: a file is damaged or cannot be read.
        """
        raise NotImplementedError

    def title(self, column: str) -> str:
        """Return the name of a column in the files."""
        return self.titles.get(column, column)

    def check_unchanged(self) -> None:
        """Raise ``DamagedRowsError`` if a file has changed since it was opened."""
        for path, fd, stamp in self._files:
            if disk.stamp(fd) != stamp:
                raise self.damaged(path, "it changed while it was read")

    def opened(self, path: str) -> int:
        """Open a regular file for reading, and return its descriptor. The method ``close`` closes the descriptor.

        Raises:
            DamagedRowsError: the file cannot be opened.
        """
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise self.damaged(path, error.strerror or str(error)) from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            disk.close(fd)
            raise self.damaged(path, "it is not a regular file")
        self._files.append((path, fd, disk.stamp(fd)))
        return fd

    def close(self) -> None:
        """Close the files."""
        while self._files:
            disk.close(self._files.pop()[1])

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def refused(self, place: str, reason: str, count: int = 0) -> RowsNotImportedError:
        """Return a ``RowsNotImportedError`` for rows that do not fit the table."""
        return RowsNotImportedError(self.path, place, reason, count)

    def damaged(self, place: str, reason: str) -> DamagedRowsError:
        """Return a ``DamagedRowsError`` for a damaged file."""
        return DamagedRowsError(self.path, place, " ".join(reason.split()))


def head_of(path: str, count: int) -> bytes:
    """Return the first ``count`` bytes of a file, or an empty string if the file cannot be read."""
    try:
        with disk.closing(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as fd:
            return os.pread(fd, count, 0)
    except OSError:
        return b""


class Wrong:
    """The first invalid row of a source, and the number of invalid rows."""

    def __init__(self) -> None:
        self.count = 0
        self._place = self._reason = ""

    def add(self, place: str, reason: str, count: int = 1) -> None:
        """Count invalid rows. Only the first call stores ``place`` and ``reason``."""
        if self.count == 0:
            self._place = place
            self._reason = reason
        self.count += count

    def raise_if_any(self, source: Source) -> None:
        """Raise ``RowsNotImportedError`` if invalid rows were counted."""
        if self.count:
            raise source.refused(self._place, self._reason, self.count)


def widths_of(spec: TableSpec) -> Dict[str, int]:
    """Return a dict: name of each column that a table can import -> number of floats in each row. The width of int64
    columns is 0.
    """
    return {KEY: 0, ROW: spec.dim, **{SLOT + slot.name: slot.width for slot in spec.slots}, COUNT: 0, TIMESTAMP: 0}


def check_columns(source: Source, spec: TableSpec) -> None:
    """Raise ``RowsNotImportedError`` if the files contain an optimizer slot that the table does not have."""
    for name in source.columns:
        if name not in widths_of(spec):
            raise source.refused("column {!r}".format(name), "table {!r} has no such optimizer slot; it has {}. Export "
                                 "without slots, or remove the column".format(
                                     spec.name, ", ".join(slot.name for slot in spec.slots) or "no slots"))


def checked_parts(source: Source, spec: TableSpec, columns: Sequence[str]) -> Iterator[Part]:
    """Check all values of a source, and yield its parts. The function yields no further parts after it has found an
    invalid value.

    Raises:
        RowsNotImportedError: a value is invalid. All rows were checked.
        DamagedRowsError: a file is damaged or cannot be read.
        NoMemoryToReadError: a block does not fit into memory.
    """
    wrong = Wrong()
    with memory_for(source.path, "a block of rows", 0):
        for part in source.parts(columns):
            _check(part, source, spec, wrong)
            if wrong.count == 0:
                yield part
    wrong.raise_if_any(source)


def _check(part: Part, source: Source, spec: TableSpec, wrong: Wrong) -> None:
    bad = np.zeros(len(part.keys), bool)
    place = reason = ""
    for name, values in part.values.items():
        found, what = _invalid(name, values, spec)
        if not found.any():
            continue
        if not reason:
            row = int(np.argmax(found))
            cell = np.ravel(values[row])
            value = cell[~np.isfinite(cell)][0] if values.ndim > 1 else cell[0]
            place = part.place(row)
            reason = "column {!r} has the value {}, which {}".format(source.title(name), value, what)
        bad |= found
    if reason:
        wrong.add(place, reason, int(bad.sum()))


def _invalid(name: str, values: np.ndarray, spec: TableSpec) -> Tuple[np.ndarray, str]:
    """Return bool[n], which is True for rows with an invalid value, and the reason as text."""
    if values.ndim > 1:
        return ~np.isfinite(values).all(axis=1), "is not finite"
    if name == KEY:
        narrow = spec.key_dtype == "int32"
        return values != values.astype(np.int32) if narrow else np.zeros(1, bool), "is not an int32"
    return values < 0, "is below 0"


def block_rows(spec: TableSpec) -> int:
    """Return the number of rows to read at a time, which depends on the size of a row."""
    return max(1, min(_MOST_ROWS, _PART_BYTES // (FLOAT_BYTES * spec.row_floats + 3 * INT_BYTES)))
