"""Lookups of one table in one channel. A single op, with one output per feature, implements all lookups of the table.

The first lookup builds the op with a provisional plan op as its input. The start of the pipeline replaces the
provisional plan op. The gradient of the lookup op contains one sum per row (``lookup_gradients.py``).
"""
from typing import Any, Dict, List, Optional

import tensorflow as tf

from ascpipe.errors import CombinerError, TableLookupError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.batch_structure import find_ids, with_default_row
from ascpipe.tf.graph.features import CHANNEL_NAMES, FeatureSpec, Stream
from ascpipe.tf.graph.ids import Ids
from ascpipe.tf.graph.rewiring import repoint
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.unseen_rows import with_initial_rows
from ascpipe.tf.running import native

MAX_LOOKUPS = 128  #: maximum number of lookups of one table in one channel


class TableLookup:
    """All lookups of one table in one channel of one graph.

    Attributes:
        channel: TRAIN or EVAL.
        stream: the stream that contains the features.
        ticket: int64 scalar, the ticket of the batch.
        specs: features in the order of the op's outputs.
        plan: outputs of the provisional plan op: the slots, followed by one restore index per feature.
        restore: restore indexes that the op reads. For sparse ids, the first lookup decides whether this is the restore
            index of the values or of the dense form.
        ops: the op of all features. In evaluation, there is an additional op for each default row.
        with_gradient: numbers of the trained outputs, in the order of their first lookup.
        calls: number of lookups.
        send_count: largest value that a lookup passed, or None if no lookup passed a value.
    """

    def __init__(self, table: Table, channel: int, stream: Stream, ticket: tf.Tensor) -> None:
        self.table = table
        self.channel = channel
        self.stream = stream
        self.ticket = ticket
        features = stream.features_of(table.table_name)
        self.specs: List[FeatureSpec] = [feature.spec for feature in features]
        self.with_gradient: List[int] = []
        self.calls = 0
        self.send_count: Optional[int] = None
        with table.building(CHANNEL_NAMES[channel]):
            slots, restore = native.ops().asc_provisional_plan(
                ticket=ticket, table=table.shape.number, stream=stream.number, k=len(features))
            self.plan: List[tf.Tensor] = [slots, *restore]
            self.restore: List[tf.Tensor] = []
            # Sparse feature -> True if lookups return one row per value, False if they return the dense form, None if
            # unknown.
            self._sparse: Dict[FeatureSpec, Optional[bool]] = {
                feature.spec: None for feature in features if feature.sparse}
            for index, feature in zip(restore, features):
                index.set_shape(feature.shape)
                # The first lookup of sparse ids determines the shape.
                self.restore.append(tf.compat.v1.placeholder_with_default(index, None) if feature.sparse else index)
            self.ops: List[tf.Operation] = []
            self._embeddings: List[tf.Tensor] = self._look_up(self.restore, tf.zeros([]))

    def embedding(self, spec: FeatureSpec, default_row: Optional[tf.Tensor], batch: Any, *,
                  values_alone: bool = False) -> tf.Tensor:
        """Return the rows of a feature's ids, a float tensor with the shape of the ids followed by dim.

        Args:
            default_row: float, [] or [dim], for keys without a row. None means zeros.
            batch: batch that contains the ids. It is needed for the dense form of sparse ids.
            values_alone: True to return one row for each value of sparse ids instead of the rows of the dense form.
        """
        place = self.specs.index(spec)
        with self.table.building(CHANNEL_NAMES[self.channel] + "_default"):
            if spec in self._sparse:
                self._shape(place, spec, batch, values_alone=values_alone)
            if default_row is None:
                return self._embeddings[place]
            if self.channel == TRAIN:
                return with_default_row(self._embeddings[place], self.plan[0], self.restore[place], default_row)
            return self._look_up([self.restore[place]], default_row)[0]

    def completed(self, spec: FeatureSpec, rows: tf.Tensor, ids: Ids) -> tf.Tensor:
        """Return a copy of ``rows`` that contains the initial row for each key without a row.

        ``rows`` is a result of ``embedding`` in evaluation.
        """
        index = self.restore[self.specs.index(spec)]
        with self.table.building(CHANNEL_NAMES[self.channel] + "_unseen"):
            is_dense_form = self._sparse.get(spec) is False
            return with_initial_rows(self.table, rows, ids.dense_keys() if is_dense_form else ids.values,
                                     self.plan[0], index)

    def note_gradient(self, spec: FeatureSpec) -> None:
        """Record that a feature's rows are trained through this lookup."""
        place = self.specs.index(spec)
        if place not in self.with_gradient:
            self.with_gradient.append(place)

    def count_call(self, send_count: Optional[int]) -> None:
        """Count a lookup, and record the largest ``send_count`` of all lookups."""
        self.calls += 1
        if send_count is not None:
            self.send_count = max(send_count, self.send_count or 0)

    def take_ticket(self, ticket: tf.Tensor) -> None:
        """Replace the ticket tensor, which selects the batch that the lookup reads."""
        repoint(self.ticket, ticket)
        self.ticket = ticket

    def _shape(self, place: int, spec: FeatureSpec, batch: Any, *, values_alone: bool) -> None:
        # The first lookup of sparse ids selects the form of the rows.
        known = self._sparse[spec]
        if known is not None and known != values_alone:
            raise CombinerError(self.table.table_name, "FeatureSpec {!r} is used by asc.sparse_lookup() and by "
                                                       "asc.lookup_sparse(). Use a separate FeatureSpec(another "
                                                       "name, index_key={!r}) for one of them".format(
                                    spec.label, spec.index_key))
        if known is not None:
            return
        index = self.plan[1 + place] if values_alone else _sparse_ids(batch, spec).dense_restore(self.plan[1 + place])
        internals.rewire(self.ops[0], 2 + place, index)
        self._embeddings[place].set_shape(index.shape.concatenate([self.table.shape.dim]))
        self.restore[place] = index
        self._sparse[spec] = values_alone

    def _look_up(self, restore: List[tf.Tensor], default_row: tf.Tensor) -> List[tf.Tensor]:
        # Read the variable by reference, because programs compute gradients with respect to the variable.
        embeddings = native.ops().asc_lookup(
            rows=internals.reference_of(self.table.variable), slots=self.plan[0], restore=restore,
            default_row=default_row, table=self.table.shape.number if self.channel == EVAL else -1)
        self.ops.append(embeddings[0].op)
        return list(embeddings)


def require_fewer(table: Table, channel: int, count: int) -> None:
    """Raise ``RuntimeError`` if a table already has ``MAX_LOOKUPS`` lookups in a channel."""
    if count >= MAX_LOOKUPS:
        raise TableLookupError("Table {!r} is looked up more than {} times in the {} channel".format(
                                   table.table_name, MAX_LOOKUPS, CHANNEL_NAMES[channel]))


def _sparse_ids(batch: Any, spec: FeatureSpec) -> Ids:
    if batch is None:
        raise TableLookupError("FeatureSpec {!r} is sparse. Pass batch= to its lookup: the result of "
                               "iterator.get_next()".format(spec.label))
    ids = find_ids(batch, spec)
    if ids is None or ids.is_dense:
        raise TableLookupError("FeatureSpec {!r}: the dataset submits a sparse tensor, but batch= has {} for it. "
                               "Pass the result of iterator.get_next()".format(
                                   spec.label, "nothing" if ids is None else "a dense one"))
    return ids
