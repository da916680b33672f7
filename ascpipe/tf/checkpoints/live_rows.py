"""Reads and changes of the rows of running tables, between two training steps."""
from typing import Any, Iterator, Mapping, Optional

import numpy as np

from ascpipe.checkpoint.contents import TableSpec
from ascpipe.errors import ArgumentError, CallOrderError, NotBuiltYetError
from ascpipe.tf.checkpoints import table_rows
from ascpipe.tf.checkpoints.loading import Load, load_tables
from ascpipe.tf.checkpoints.saving import specs_of
from ascpipe.tf.checkpoints.table_copy import Edit, EditedTable, TableCopy, find
from ascpipe.tf.running.hold_between_steps import TableState, hold
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.row_access import RowAccess, TableRows


class LiveRows(RowAccess):
    """Rows of the tables of a pipeline. ``Table`` documents the methods."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def read(self, table: str, keys: Any) -> TableRows:
        """Return the rows of some keys. Only matching entries are copied."""
        self._require_one_rank("read")
        wanted, places = np.unique(checked_keys(keys), return_inverse=True)
        with hold(alone=False) as held:
            at = held.table(self._pipeline.tables[table].shape.number)
            spec = self._spec(table, at)
            found = _none(wanted, spec)

            def which(entries: np.ndarray) -> np.ndarray:
                return table_rows.trained(entries) & find(wanted, entries["key"])[0]

            for block in table_rows.blocks(at, which):
                where = find(wanted, block.keys)[1]
                found.found[where] = True
                found.rows[where] = block.joined().rows
                found.counts[where] = block.counts
                found.timestamps[where] = block.timestamps
            for counted in table_rows.candidates(at, which):
                where = find(wanted, counted.keys)[1]
                found.counts[where] = counted.counts
                found.timestamps[where] = counted.timestamps
        return _split(TableRows(wanted[places], found.rows[places], found.found[places], found.counts[places],
                                found.timestamps[places], {}), spec)

    def items(self, table: str, block: int) -> Iterator[TableRows]:
        self._require_one_rank("items")
        with hold(alone=False) as held:
            at = held.table(self._pipeline.tables[table].shape.number)
            spec = self._spec(table, at)
            copy = TableCopy(table, at, spec.row_floats)
        return _blocks(copy, spec, block)

    def assign(self, table: str, keys: Any, rows: Any, slots: Optional[Mapping[str, Any]]) -> None:
        """Check the arguments, and replace the table by an edited copy."""
        self._require_one_rank("assign")
        keys = checked_keys(keys)
        known = self._pipeline.tables[table]
        dim = known.shape.dim
        parts = [_checked_rows("rows", rows, len(keys), dim)]
        given = dict(slots or {})
        kept = []
        column = dim
        for slot in known.slots:
            if slot.name in given:
                name = "slots[{!r}]".format(slot.name)
                parts.append(_checked_rows(name, given.pop(slot.name), len(keys), slot.width))
            else:
                parts.append(np.full((len(keys), slot.width), slot.initial or 0.0, np.float32))
                kept.append((column, slot.width))
            column += slot.width
        if given:
            names = ", ".join(slot.name for slot in known.slots)
            raise ArgumentError("slots has {}, and table {!r} has {}. Nothing was changed".format(
                ", ".join(map(repr, given)), table, names or "no optimizer slot"))
        order = np.argsort(keys, kind="stable")
        twice = np.flatnonzero(np.diff(keys[order]) == 0)
        if len(twice):
            raise ArgumentError("keys has the key {} twice. Nothing was changed. Pass each key once".format(
                keys[order][twice[0]]))
        self._edit(table, Edit(keys[order], np.concatenate(parts, axis=1)[order], kept))

    def delete(self, table: str, keys: Any) -> int:
        self._require_one_rank("delete")
        return self._edit(table, Edit(np.unique(checked_keys(keys))))

    def _edit(self, table: str, edit: Edit) -> int:
        """Replace the table by an edited copy. Return the number of deleted keys."""
        pipeline = self._pipeline
        pipeline.background.settle()
        with hold(alone=True) as held:
            shape = pipeline.tables[table].shape
            at = held.table(shape.number)
            if not at.device and not len(at.homes):
                raise CallOrderError("Table {!r} has no rows yet. Nothing was changed. Run the initializer of the "
                                     "variables, or restore a checkpoint, before you change rows".format(table))
            spec = self._spec(table, at)
            edited = EditedTable(TableCopy(table, at, spec.row_floats), spec, edit._replace(
                threshold=max(0, int(at.header["access_threshold"])), time=int(at.header["time"])))
            columns = [(0, 0, spec.dim)]
            for slot in spec.slots:
                columns.append((sum(columns[-1][1:]), sum(columns[-1][1:]), slot.width))
            load_tables(pipeline, held, [Load(shape, spec.slots, edited, edited.tables[table], columns, [])])
            pipeline.begin_history()
        return int(edited.deleted)

    def _spec(self, table: str, at: TableState) -> TableSpec:
        (spec,) = specs_of(self._pipeline, [self._pipeline.tables[table]], {table: at}, {table: None})
        return spec

    def _require_one_rank(self, call: str) -> None:
        if self._pipeline.ranks > 1:
            raise NotBuiltYetError("Table.{}() with several ranks".format(call), "save a checkpoint, and use "
                                   "`ascpipe checkpoint export`")


def checked_keys(keys: Any) -> np.ndarray:
    """Return keys as int64[n].

    Raises:
        ArgumentError: keys are not a vector of integers.
    """
    found = np.asarray(keys)
    if found.size == 0:
        found = found.astype(np.int64)
    if found.ndim != 1 or not np.issubdtype(found.dtype, np.integer):
        raise ArgumentError("keys has the shape {} and the dtype {}. Nothing was changed. Pass a vector of "
                            "integers".format(list(found.shape), found.dtype))
    if found.dtype == np.uint64 and found.size and int(found.max()) > np.iinfo(np.int64).max:
        raise ArgumentError("keys has the key {}, and the limit is {}. Nothing was changed".format(
            found.max(), np.iinfo(np.int64).max))
    return found.astype(np.int64)


def _checked_rows(name: str, rows: Any, count: int, width: int) -> np.ndarray:
    found = np.asarray(rows)
    if found.shape != (count, width) or not np.issubdtype(found.dtype, np.number):
        raise ArgumentError("{} has the shape {} and the dtype {}. Nothing was changed. Pass float32 of the shape "
                            "[{}, {}]".format(name, list(found.shape), found.dtype, count, width))
    found = found.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if len(bad):
        raise ArgumentError("{} has a value that is not finite in {} of {} rows, the first is row {}. Nothing was "
                            "changed".format(name, len(bad), count, bad[0]))
    return found


def _none(keys: np.ndarray, spec: TableSpec) -> TableRows:
    """Return the keys without rows. ``rows`` includes the optimizer slots."""
    return TableRows(keys, np.full((len(keys), spec.row_floats), np.nan, np.float32), np.zeros(len(keys), bool),
                     np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64), {})


def _split(found: TableRows, spec: TableSpec) -> TableRows:
    """Divide the rows into embeddings and optimizer slots."""
    column = spec.dim
    slots = {}
    for slot in spec.slots:
        slots[slot.name] = found.rows[:, column:column + slot.width]
        column += slot.width
    return found._replace(rows=found.rows[:, :spec.dim], slots=slots)


def _blocks(copy: TableCopy, spec: TableSpec, block: int) -> Iterator[TableRows]:
    for start in range(0, len(copy.keys), block):
        part = slice(start, start + block)
        keys = np.array(copy.keys[part])
        yield _split(TableRows(keys, np.array(copy.rows[part]), np.ones(len(keys), bool), np.array(copy.counts[part]),
                               np.array(copy.timestamps[part]), {}), spec)
