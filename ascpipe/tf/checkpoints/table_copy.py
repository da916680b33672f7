"""Copies of tables in temporary files, and edited copies that can replace a table's contents."""
import contextlib
import functools
import os
import tempfile
import uuid
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint.contents import KeyBlock, TableSpec
from ascpipe.checkpoint.errors import CheckpointError
from ascpipe.checkpoint.tree import why
from ascpipe.tf.checkpoints import table_rows
from ascpipe.tf.running.hold_between_steps import TableState

BLOCK_ROWS = 1 << 14


class Edit(NamedTuple):
    """Changes of a table.

    Attributes:
        keys: keys to change, int64[n], ascending and distinct.
        rows: float32[n, row floats] with the optimizer slots, or None to delete the keys.
        kept: (column, width) of the parts of ``rows`` that are used only for new keys. Existing rows keep their values
            in these columns.
        threshold: minimum count at which a key gets a row.
        time: timestamp of keys that the table does not know.
    """

    keys: np.ndarray
    rows: Optional[np.ndarray] = None
    kept: Sequence[Tuple[int, int]] = ()
    threshold: int = 0
    time: int = 0


class TableCopy:
    """Copy of the trained state of a table. The files of the copy are deleted together with this object.

    Args:
        at: state of the table during a hold.
        row_floats: floats per row, with the optimizer slots.

    Attributes:
        keys, counts, timestamps: int64[n] each, keys that have a row.
        rows: float32[n, row_floats].
        counted: keys that are counted but have no row.

    Raises:
        CheckpointError: a file cannot be written. The table is unchanged.
    """

    def __init__(self, name: str, at: TableState, row_floats: int) -> None:
        try:
            with contextlib.ExitStack() as opened:
                def column(dtype: Any, width: Optional[int] = None) -> _Column:
                    return opened.enter_context(_Column(dtype, width))

                with_rows = [column(np.int64), column(np.int64), column(np.int64), column(np.float32, row_floats)]
                for parted in table_rows.blocks(at):
                    block = parted.joined()
                    _append(with_rows, (block.keys, block.counts, block.timestamps, block.rows))
                counted = [column(np.int64), column(np.int64), column(np.int64)]
                for candidates in table_rows.candidates(at):
                    _append(counted, candidates)
                self.keys, self.counts, self.timestamps, self.rows = (each.array() for each in with_rows)
                self.counted = KeyBlock(*(each.array() for each in counted))
        except OSError as error:
            raise CheckpointError(
                "Table {!r} was not copied to the directory {} for temporary files: {}. The table is unchanged. Set "
                "TMPDIR to a directory with more space".format(name, tempfile.gettempdir(), why(error))) from error


class EditedTable:
    """An edited copy of one table. The class provides the methods of ``Checkpoint`` that are needed to load one table.

    Args:
        spec: spec of the table before the edit.

    Attributes:
        prefix: description for errors.
        tables: name of the table -> spec after the edit.
        deleted: keys that the edit deletes, and their timestamps, int64[n] each.
    """

    def __init__(self, copy: TableCopy, spec: TableSpec, edit: Edit) -> None:
        self.prefix = "of the edit of table {!r}".format(spec.name)
        self._copy = copy
        self._edit = edit
        self._widths = [spec.dim, *(slot.width for slot in spec.slots)]
        counted = copy.counted
        is_counted, at = find(edit.keys, counted.keys)  # no longer only counted after the edit
        self._counted = KeyBlock(*(values[~is_counted] for values in counted))
        is_new = np.ones(len(edit.keys), bool)
        gone = [(counted.keys[is_counted], counted.timestamps[is_counted])]
        for keys, timestamps in zip(_slices(copy.keys), _slices(copy.timestamps)):
            found, where = find(edit.keys, keys)
            is_new[where[found]] = False
            gone.append((keys[found], timestamps[found]))
        rows = len(copy.keys)
        self._new = np.flatnonzero(is_new) if edit.rows is not None else np.zeros(0, np.int64)
        self.deleted = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if edit.rows is None:
            self.deleted = np.concatenate([keys for keys, _ in gone]), np.concatenate([seen for _, seen in gone])
            rows -= np.count_nonzero(~is_new)
        counts = np.zeros(len(edit.keys), np.int64)
        timestamps = np.full(len(edit.keys), edit.time, np.int64)
        counts[at[is_counted]] = counted.counts[is_counted]
        timestamps[at[is_counted]] = counted.timestamps[is_counted]
        self._new_keys = KeyBlock(edit.keys[self._new], counts[self._new].clip(min=edit.threshold),
                                  timestamps[self._new])
        self.tables: Dict[str, TableSpec] = {spec.name: spec._replace(
            rows=int(rows + len(self._new)), candidates=len(self._counted.keys))}

    def rows_of(self, table: str, rank: int = 0, ranks: int = 1) -> Tuple[int, int]:
        return self.tables[table].rows, self.tables[table].candidates

    def keys_with_rows(self, table: str, rank: int = 0, ranks: int = 1) -> Iterator[KeyBlock]:
        copy = self._copy
        for keys, counts, timestamps in zip(_slices(copy.keys), _slices(copy.counts), _slices(copy.timestamps)):
            kept = self._kept(keys)
            yield KeyBlock(keys[kept], counts[kept], timestamps[kept])
        yield self._new_keys

    def candidates(self, table: str, rank: int = 0, ranks: int = 1) -> Iterator[KeyBlock]:
        yield self._counted

    def row_parts(self, table: str, targets: Any, rank: int = 0, ranks: int = 1) -> Iterator[Sequence[np.ndarray]]:
        for keys, rows in zip(_slices(self._copy.keys), _slices(self._copy.rows)):
            yield self._parts(self._changed(keys, np.array(rows))[self._kept(keys)])
        if self._edit.rows is not None:
            yield self._parts(self._edit.rows[self._new])

    def pool(self, table: str) -> Optional[np.ndarray]:
        return None

    def _kept(self, keys: np.ndarray) -> np.ndarray:
        return ~find(self._edit.keys, keys)[0] if self._edit.rows is None else np.ones(len(keys), bool)

    def _changed(self, keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if self._edit.rows is None:
            return rows
        found, where = find(self._edit.keys, keys)
        changed = self._edit.rows[where[found]]
        for column, width in self._edit.kept:
            changed[:, column:column + width] = rows[found, column:column + width]
        rows[found] = changed
        return rows

    def _parts(self, rows: np.ndarray) -> List[np.ndarray]:
        return np.split(rows, np.cumsum(self._widths)[:-1], axis=1)


class _Column:
    """Array in a temporary file. Rows are appended to the file. The array remains valid after the file is closed."""

    def __init__(self, dtype: Any, width: Optional[int] = None) -> None:
        self._file = _unnamed_file(tempfile.gettempdir())
        self._dtype = np.dtype(dtype)
        self._shape: Tuple[int, ...] = () if width is None else (width,)
        self._count = 0

    def __enter__(self) -> "_Column":
        return self

    def __exit__(self, *reason: Any) -> None:
        self._file.close()

    def append(self, values: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self._count += len(values)

    def array(self) -> np.ndarray:
        self._file.flush()
        shape = (self._count, *self._shape)
        return np.memmap(self._file, self._dtype, "r", 0, shape) if self._count else np.zeros(shape, self._dtype)


def _unnamed_file(folder: str) -> BinaryIO:
    """Create a file in ``folder``, delete its name, and return the open file.

    ``tempfile.TemporaryFile`` closes the file twice if Ctrl-C interrupts it. Here, no function of Python has the
    descriptor.
    """
    path = os.path.join(folder, "ascpipe-{}".format(uuid.uuid4().hex))
    try:
        return open(path, "x+b", opener=functools.partial(os.open, mode=0o600))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _append(to: Sequence[_Column], values: Sequence[np.ndarray]) -> None:
    for column, array in zip(to, values):
        column.append(array)


def _slices(values: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(values), BLOCK_ROWS):
        yield values[start:start + BLOCK_ROWS]


def find(keys: np.ndarray, wanted: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Look up keys in an ascending array.

    Args:
        keys: int64[n], ascending.
        wanted: int64[m].

    Returns:
        bool[m], True for each wanted key that ``keys`` contains, and int64[m], the index of each such key in ``keys``.
        The indices of other keys are meaningless.
    """
    where = np.searchsorted(keys, wanted)
    if not len(keys):
        return np.zeros(len(wanted), bool), where
    where = np.minimum(where, len(keys) - 1)
    return keys[where] == wanted, where

