"""Functions that read and change rows of running tables between two training steps."""
from typing import Any, Iterator, Mapping, Optional

import numpy as np

from ascpipe.checkpoint.keys import belongs
from ascpipe.errors import ArgumentError, CallOrderError
from ascpipe.tf.checkpoints.own_rows import copied_rows, edited, load_edited, read_rows, spec_of, split
from ascpipe.tf.checkpoints.rank_rows import OtherRanksEdit, freeze_other_ranks, read_other_rows
from ascpipe.tf.checkpoints.table_copy import Edit
from ascpipe.tf.running.hold_between_steps import hold
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.row_access import RowAccess, TableRows


class LiveRows(RowAccess):
    """Access to the rows of a pipeline's tables. ``Table`` documents the methods."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def read(self, table: str, keys: Any) -> TableRows:
        """Return the rows of ``keys``, in the order of ``keys``. Each row is read on the rank that owns it."""
        self._require_rank_0("read")
        wanted, places = np.unique(checked_keys(keys), return_inverse=True)
        pipeline = self._pipeline
        with hold(alone=False) as held:
            spec = spec_of(pipeline, table, held.table(pipeline.tables[table].shape.number))
            found = read_rows(pipeline, held, table, wanted)
            if pipeline.ranks > 1:
                read_other_rows(pipeline, table, found)
        return split(TableRows(wanted[places], found.rows[places], found.found[places], found.counts[places],
                               found.timestamps[places], {}), spec)

    def items(self, table: str, block: int) -> Iterator[TableRows]:
        with hold(alone=False) as held:
            return copied_rows(self._pipeline, held, table, block)

    def assign(self, table: str, keys: Any, rows: Any, slots: Optional[Mapping[str, Any]]) -> None:
        """Change rows of a table: check the arguments, and replace the table with an edited copy."""
        self._require_rank_0("assign")
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
        self._require_rank_0("delete")
        return self._edit(table, Edit(np.unique(checked_keys(keys))))

    def freeze(self, table: str, *, frozen: bool) -> None:
        self._require_rank_0("freeze" if frozen else "unfreeze")
        number = self._pipeline.tables[table].shape.number
        with hold(alone=True) as held:
            held.freeze(number, frozen=frozen)
            if self._pipeline.ranks > 1:
                freeze_other_ranks(self._pipeline, table, frozen=frozen)

    def _edit(self, table: str, edit: Edit) -> int:
        """Replace a table with an edited copy. Return the number of deleted keys."""
        pipeline = self._pipeline
        pipeline.background.settle()
        with hold(alone=True) as held:
            if pipeline.ranks == 1:
                content = edited(pipeline, held, table, edit)
                load_edited(pipeline, held, table, content)
                pipeline.begin_history()
                return len(content.deleted[0])
            mine = belongs(edit.keys, pipeline.rank, pipeline.ranks)
            content = edited(pipeline, held, table, edit._replace(
                keys=edit.keys[mine], rows=None if edit.rows is None else edit.rows[mine]))
            others = OtherRanksEdit(pipeline, table, edit)
            load_edited(pipeline, held, table, content)
            pipeline.begin_history()
            others.execute()
        return len(content.deleted[0]) + others.deleted

    def _require_rank_0(self, call: str) -> None:
        if self._pipeline.rank != 0:
            raise CallOrderError("Table.{}() was called on rank {}. Nothing was changed. Call it on rank 0, for the "
                                 "rows of all ranks".format(call, self._pipeline.rank))


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
