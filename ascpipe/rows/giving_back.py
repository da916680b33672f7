"""Conversion of tables to variables in a checkpoint for TensorFlow (docs/how-to/tensorflow_checkpoints.md)."""
import os
import shutil
import tempfile
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.contents import FLOAT_BYTES, INT_BYTES
from ascpipe.checkpoint.errors import NotConvertedError, NotSavedError
from ascpipe.checkpoint.memory_room import memory_for
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.tree import why
from ascpipe.errors import ArgumentError
from ascpipe.errors.base import shown
from ascpipe.rows import tensorflow_names
from ascpipe.rows.bundle_format import Entry, key_of
from ascpipe.rows.bundles import FLOAT32, Bundle, BundleWriter
from ascpipe.rows.columns import columns_of, pieces_of
from ascpipe.rows.export import Progress, table_of
from ascpipe.rows.free_names import free_name
from ascpipe.rows.newest import note_newest
from ascpipe.rows.sorting import Arrays, in_key_order, temporary_rooms

_MARK = "ascpipe_only_tables"  #: placeholder tensor of checkpoints without variables
_PART_BYTES = 4 << 20
MAX_ROWS = 1 << 31


class Table(NamedTuple):
    """Table that becomes a variable.

    Attributes:
        name: name of the table.
        variable: name of the variable.
        rows: number of rows of the variable, or None for the largest key plus 1.
    """

    name: str
    variable: str
    rows: Optional[int] = None


class Request(NamedTuple):
    """Parameters of a conversion.

    Attributes:
        checkpoint: ``dir/base-step`` of a checkpoint of ascpipe. It is not changed.
        tables: tables that become variables, or None for the tables of feature columns, which must be all tables of the
            checkpoint. The checkpoint contains the names and numbers of rows of their variables.
        to: prefix of the new checkpoint, ``dir/base-step``.
    """

    checkpoint: str
    tables: Optional[Sequence[Table]]
    to: str


class GivenBack(NamedTuple):
    """Result of a conversion.

    Attributes:
        checkpoint: prefix of the new checkpoint.
        rows: name of each variable -> number of rows.
        zeros: name of each variable -> number of rows without a key, which are zeros.
        slots: name of each variable -> names of its optimizer slots.
    """

    checkpoint: str
    rows: Mapping[str, int]
    zeros: Mapping[str, int]
    slots: Mapping[str, Sequence[str]]


def given_back(request: Request, progress: Optional[Progress] = None) -> GivenBack:
    """Convert a checkpoint with tables to a new checkpoint for TensorFlow's Saver. TensorFlow is not needed.

    Row i of a variable is the row of key i. Other variables are copied.

    Args:
        progress: called after each block of rows with (rows written so far, total number of rows).

    Raises:
        ArgumentError: an argument is not allowed.
        NotConvertedError: the keys of a table are not row numbers, or the checkpoint does not contain the name of a
            table's variable.
        CheckpointError: the checkpoint is missing or damaged, does not have the table, or the files cannot be written.
    """
    if request.tables is not None:
        _check(request.tables)
    place = free_name(request.to)
    directory = place[0]
    stem = os.path.basename(request.to)
    with open_checkpoint(request.checkpoint) as checkpoint:
        tables = _tables_of_columns(checkpoint) if request.tables is None else request.tables
        given = [_Given(checkpoint, table) for table in tables]
        try:
            disk.make_path(directory)
            folder = tempfile.mkdtemp(prefix=".to-tensorflow-", dir=directory)
            try:
                slots = _write(checkpoint, given, folder, stem, progress)
                _publish(folder, directory)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:
            raise NotSavedError(request.to, why(error), 0, 0, "Nothing was left behind.") from error
    note_newest(place)
    return GivenBack(request.to, {one.variable: one.rows for one in given},
                     {one.variable: one.rows - one.spec.rows for one in given}, slots)


class _Given:
    """Table that the conversion replaces by a variable.

    Args:
        checkpoint: the checkpoint.
        table: the table.

    Attributes:
        spec: spec of the table.
        variable: name of the variable.
        rows: number of rows of the variable.
    """

    def __init__(self, checkpoint: Checkpoint, table: Table) -> None:
        self.spec = table_of(checkpoint, table.name)
        self.variable = table.variable
        self._checkpoint = checkpoint
        keys = self._keys()
        largest = int(keys.max()) if len(keys) else -1
        self.rows = largest + 1 if table.rows is None else table.rows
        outside = keys[(keys < 0) | (keys >= self.rows)]
        if len(outside):
            raise self._refused("{} of its {} keys are not row numbers in [0, {}), for example {}".format(
                len(outside), len(keys), self.rows, outside[0]))
        if table.rows is None and self.rows != len(keys):
            raise self._refused("it has {} keys, but its largest key is {}. Pass the number of rows of the variable; "
                                "rows without a key become zeros".format(len(keys), largest))
        if not self.rows:
            raise self._refused("it has no rows. Pass the number of rows of the variable")

    def blocks(self, folder: str) -> Iterator[Arrays]:
        """Yield blocks of consecutive rows of the variable, with the rows of its optimizer slots."""
        columns = columns_of(self.spec, slots=True, counts=False)
        names = [column.name for column in columns]
        sorted_blocks = in_key_order(
            lambda: self._checkpoint.arrays(self.spec.name, lambda spec: pieces_of(spec, names)), [self._keys()],
            columns, lambda: temporary_rooms(folder, columns, self.spec.rows))
        initial = [0.0, *(slot.initial or 0.0 for slot in self.spec.slots)]
        step = max(1, _PART_BYTES // (FLOAT_BYTES * self.spec.row_floats))
        done = 0
        for keys, *arrays in sorted_blocks:
            end = int(keys[-1]) + 1
            for first in range(done, end, step):
                last = min(first + step, end)
                low, high = np.searchsorted(keys, (first, last))
                filled = [np.full((last - first, values.shape[1]), value, np.float32)
                          for values, value in zip(arrays, initial)]
                for values, out in zip(arrays, filled):
                    out[keys[low:high] - first] = values[low:high]
                yield filled
            done = end
        for first in range(done, self.rows, step):
            count = min(step, self.rows - first)
            yield [np.full((count, column.width), value, np.float32) for column, value in zip(columns[1:], initial)]

    def _keys(self) -> np.ndarray:
        with memory_for(self._checkpoint.prefix, "the keys of table {!r}".format(self.spec.name),
                        2 * INT_BYTES * self.spec.rows):
            return np.concatenate([np.empty(0, np.int64), *(
                block.keys for block in self._checkpoint.keys_with_rows(self.spec.name))])

    def _refused(self, reason: str) -> NotConvertedError:
        return NotConvertedError(self._checkpoint.prefix, "table {!r}".format(self.spec.name), reason)


def _write(checkpoint: Checkpoint, given: Sequence[_Given], folder: str, stem: str,
           progress: Optional[Progress]) -> Dict[str, List[str]]:
    """Write the unchanged variables, then the arrays of each table. Return the slot names of each new variable."""
    taken = {one.variable for one in given}
    slots: Dict[str, List[str]] = {one.variable: [] for one in given}
    done = 0
    total = sum(one.rows for one in given)
    with BundleWriter(folder, stem) as writer:
        if checkpoint.dense_prefix is not None:
            with Bundle(checkpoint.dense_prefix) as bundle:
                bundle.verify()
                for name in bundle.tensors:
                    if name not in taken and name != _MARK:
                        writer.copy(bundle, name)
        for new, old in tensorflow_names.reverse_aliases(writer.tensors).items():
            writer.alias(new, old)
        dense = writer.tensors
        for one in given:
            widths = [one.spec.dim, *(slot.width for slot in one.spec.slots)]
            writer.open_lanes([FLOAT_BYTES * one.rows * width for width in widths])
            for arrays in one.blocks(folder):
                for lane, values in enumerate(arrays, 1):
                    writer.write(values.tobytes(), lane)
                done += len(arrays[0])
                if progress is not None:
                    progress(done, total)
            writer.end(key_of(one.variable), Entry(FLOAT32, (one.rows, one.spec.dim)), 1)
            for lane, slot in enumerate(one.spec.slots, 2):
                first, *others = tensorflow_names.names_like(
                    one.variable, tensorflow_names.tensorflow_slot(slot.name), dense)
                writer.end(key_of(first), Entry(FLOAT32, (one.rows, slot.width)), lane)
                for other in others:
                    writer.alias(other, first)
                slots[one.variable].append(first)
        writer.finish()
    return slots


def _publish(folder: str, directory: str) -> None:
    """Move the files of a checkpoint from ``folder`` to ``directory``. The index file is moved last, because it marks
    the checkpoint as complete.
    """
    with disk.closing(disk.open_directory(folder)) as old, disk.closing(disk.open_directory(directory)) as new:
        for name in sorted(disk.names(old), key=lambda name: (name.endswith(".index"), name)):
            disk.rename(old, name, name, new)
        disk.sync(new)


def _tables_of_columns(checkpoint: Checkpoint) -> List[Table]:
    """Return the tables of feature columns, with the variables that the tables replace."""
    missing = [name for name, spec in checkpoint.tables.items() if spec.column is None]
    if missing:
        raise NotConvertedError(
            checkpoint.prefix, "table {}".format(", ".join(map(repr, missing))), "the checkpoint does not contain the "
            "name of its variable, because the table belongs to no feature column or an earlier version saved the "
            "checkpoint. Pass the names of all tables and of their variables")
    found = []
    for spec in checkpoint.tables.values():
        if spec.column is not None and spec.column.buckets > MAX_ROWS:
            raise NotConvertedError(checkpoint.prefix, "table {!r}".format(spec.name), "its column has {} buckets, and "
                                    "a variable has at most {} rows".format(spec.column.buckets, MAX_ROWS))
        if spec.column is not None:
            found.append(Table(spec.name, *spec.column))
    return found


def _check(tables: Sequence[Table]) -> None:
    if not tables:
        raise ArgumentError("No table was passed. Nothing was read or written. Pass the name of a table and of its "
                            "variable")
    for what, given in (("table", [table.name for table in tables]),
                        ("variable", [table.variable for table in tables])):
        twice = [name for number, name in enumerate(given) if name in given[:number]]
        if twice:
            raise ArgumentError("The {} {} was passed twice. Nothing was read or written. Pass each name once".format(
                what, shown(twice[0])))
    for table in tables:
        if table.rows is not None and not 1 <= table.rows <= MAX_ROWS:
            raise ArgumentError("rows={} is not in [1, {}]. Nothing was read or written".format(table.rows, MAX_ROWS))
