"""Functions that read and change the rows of this rank during a hold. If there is only one rank, it owns all rows."""
from typing import Iterator

import numpy as np

from ascpipe.checkpoint.contents import TableSpec
from ascpipe.errors import CallOrderError
from ascpipe.eviction_log import DELETED
from ascpipe.tf.checkpoints import table_rows
from ascpipe.tf.checkpoints.loading import Load, load_tables
from ascpipe.tf.checkpoints.saving import specs_of
from ascpipe.tf.checkpoints.table_copy import Edit, EditedTable, TableCopy, find
from ascpipe.tf.running.hold_between_steps import Hold, TableState
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.row_access import TableRows


def read_rows(pipeline: Pipeline, held: Hold, table: str, keys: np.ndarray) -> TableRows:
    """Return the rows of the given keys. Copy only the entries of the given keys.

    Args:
        keys: int64[n], ascending and distinct.

    Returns:
        The keys in the same order. ``rows`` includes the optimizer slots, and ``slots`` is empty.
    """
    at = held.table(pipeline.tables[table].shape.number)
    spec = spec_of(pipeline, table, at)
    found = TableRows(keys, np.full((len(keys), spec.row_floats), np.nan, np.float32), np.zeros(len(keys), bool),
                      np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64), {})

    def which(entries: np.ndarray) -> np.ndarray:
        return table_rows.trained(entries) & find(keys, entries["key"])[0]

    for block in table_rows.blocks(at, which):
        where = find(keys, block.keys)[1]
        found.found[where] = True
        found.rows[where] = block.joined().rows
        found.counts[where] = block.counts
        found.timestamps[where] = block.timestamps
    for counted in table_rows.candidates(at, which):
        where = find(keys, counted.keys)[1]
        found.counts[where] = counted.counts
        found.timestamps[where] = counted.timestamps
    return found


def copied_rows(pipeline: Pipeline, held: Hold, table: str, block: int) -> Iterator[TableRows]:
    """Copy a table to a temporary file, and return an iterator that yields ``block`` rows of the copy at a time."""
    at = held.table(pipeline.tables[table].shape.number)
    spec = spec_of(pipeline, table, at)
    return _blocks(TableCopy(table, at, spec.row_floats), spec, block)


def edited(pipeline: Pipeline, held: Hold, table: str, edit: Edit) -> EditedTable:
    """Return an edited copy of a table. The table does not change.

    Args:
        edit: changes of keys that this rank owns. This function sets ``threshold`` and ``time``.

    Raises:
        CallOrderError: the table has no rows yet.
        CheckpointError: the copy cannot be written.
    """
    known = pipeline.tables[table]
    at = held.table(known.shape.number)
    if not at.device and not len(at.homes):
        raise CallOrderError("Table {!r} has no rows yet. Nothing was changed. Run the initializer of the variables, "
                             "or restore a checkpoint, before you change rows".format(table))
    if not known.shape.home_rows:  # before the first step, the optimizer slots on the device do not exist yet
        held.create_slots(known.shape.number, known.slots)
        at = held.table(known.shape.number)
    spec = spec_of(pipeline, table, at)
    return EditedTable(TableCopy(table, at, spec.row_floats), spec, edit._replace(
        threshold=max(0, int(at.header["access_threshold"])), time=int(at.header["time"])))


def load_edited(pipeline: Pipeline, held: Hold, table: str, content: EditedTable) -> None:
    """Replace the rows of a table with an edited copy during an exclusive hold. Log the deleted keys.

    Raises:
        tf.errors.ResourceExhaustedError: the table has too little space. Nothing was changed.
    """
    shape = pipeline.tables[table].shape
    spec = content.tables[table]
    columns = [(0, 0, spec.dim)]
    for slot in spec.slots:
        columns.append((sum(columns[-1][1:]), sum(columns[-1][1:]), slot.width))
    header = held.table(shape.number).header
    retired = int(header["retired"])
    load_tables(pipeline, held, [Load(shape, spec.slots, content, spec, columns, [])])
    if pipeline.eviction_log is not None:
        header["unlogged_deleted"] += pipeline.eviction_log.write(table, retired, DELETED, [content.deleted])


def split(found: TableRows, spec: TableSpec) -> TableRows:
    """Split the columns of the rows into embeddings and optimizer slots."""
    column = spec.dim
    slots = {}
    for slot in spec.slots:
        slots[slot.name] = found.rows[:, column:column + slot.width]
        column += slot.width
    return found._replace(rows=found.rows[:, :spec.dim], slots=slots)


def spec_of(pipeline: Pipeline, table: str, at: TableState) -> TableSpec:
    """Return the spec of a table, including the optimizer slots."""
    (spec,) = specs_of(pipeline, [pipeline.tables[table]], {table: at}, {table: None})
    return spec


def _blocks(copy: TableCopy, spec: TableSpec, block: int) -> Iterator[TableRows]:
    for start in range(0, len(copy.keys), block):
        part = slice(start, start + block)
        keys = np.array(copy.keys[part])
        yield split(TableRows(keys, np.array(copy.rows[part]), np.ones(len(keys), bool), np.array(copy.counts[part]),
                              np.array(copy.timestamps[part]), {}), spec)
