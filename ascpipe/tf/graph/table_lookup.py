"""All lookups of one table in one channel are one op with an output for each feature.

The first lookup builds the op. Its rows come from a provisional plan op, which the start of the pipeline replaces by
the real one. Its gradient is one sum per row (``lookup_gradients.py``).
"""
from typing import Any, Dict, List, Optional

import tensorflow as tf

from ascpipe.errors import CombinerError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.batch_structure import find_ids, with_default_row
from ascpipe.tf.graph.features import CHANNEL_NAMES, FeatureSpec, Stream
from ascpipe.tf.graph.ids import Ids
from ascpipe.tf.graph.rewiring import repoint
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.unseen_rows import with_initial_rows
from ascpipe.tf.running import native

MAX_LOOKUPS = 128  #: of one table in one channel


class TableLookup:
    """All lookups of one table in one channel of one graph.

    Attributes:
        table: the table.
        channel: TRAIN or EVAL.
        stream: the stream that carries its features.
        ticket: int64 scalar.
        specs: its features, in the order of the op's outputs.
        plan: outputs of the provisional plan op: slots, then a restore index for each feature.
        restore: what the lookup op reads of them: for sparse ids the index of their dense form, from their first
            lookup on.
        default_row: what a key without a row gives.
        ops: the lookup ops: the one of all features, and one for each default row of an evaluation.
        with_gradient: outputs in the order in which they were first looked up with a gradient.
        calls: how many lookups there were.
        send_count: largest that was given, with static shapes; else None.
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
            # Of sparse features, whether rows of their values alone are looked up, once it is known.
            self._sparse: Dict[FeatureSpec, Optional[bool]] = {
                feature.spec: None for feature in features if feature.sparse}
            for index, feature in zip(restore, features):
                index.set_shape(feature.shape)
                # Of sparse ids neither rank nor places are known before they are looked up.
                self.restore.append(tf.compat.v1.placeholder_with_default(index, None) if feature.sparse else index)
            self.ops: List[tf.Operation] = []
            self._embeddings: List[tf.Tensor] = self._look_up(self.restore, tf.zeros([]))

    def embedding(self, spec: FeatureSpec, default_row: Optional[tf.Tensor], batch: Any, *,
                  values_alone: bool = False) -> tf.Tensor:
        """Rows of a feature's ids, float of its shape followed by dim; ``batch`` holds them where they are sparse.

        Args:
            values_alone: give rows of the values of sparse ids, not of their dense form.
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
        """Rows of a feature's ids in evaluation, of which a key without a row has its initial one.

        Args:
            spec: the feature.
            rows: its rows, as ``embedding`` returned them.
            ids: of the same batch.
        """
        index = self.restore[self.specs.index(spec)]
        with self.table.building(CHANNEL_NAMES[self.channel] + "_unseen"):
            is_dense_form = self._sparse.get(spec) is False
            return with_initial_rows(self.table, rows, ids.dense_keys() if is_dense_form else ids.values,
                                     self.plan[0], index)

    def note_gradient(self, spec: FeatureSpec) -> None:
        """Note that a feature's rows are trained through this lookup."""
        place = self.specs.index(spec)
        if place not in self.with_gradient:
            self.with_gradient.append(place)

    def count_call(self, send_count: Optional[int]) -> None:
        """Count a lookup, and note the ``send_count`` that it was given."""
        self.calls += 1
        if send_count is not None:
            self.send_count = max(send_count, self.send_count or 0)

    def take_ticket(self, ticket: tf.Tensor) -> None:
        """Read the batches of another ticket from now on."""
        repoint(self.ticket, ticket)
        self.ticket = ticket

    def _shape(self, place: int, spec: FeatureSpec, batch: Any, *, values_alone: bool) -> None:
        """Let the lookup op give rows of sparse ids in the form in which they are looked up first."""
        known = self._sparse[spec]
        if known is not None and known != values_alone:
            raise CombinerError(self.table.table_name, "FeatureSpec {!r} is looked up by sparse_lookup() and by "
                                "lookup_sparse(); give each its own, FeatureSpec(another name, index_key={!r})".format(
                                    spec.label, spec.index_key))
        if known is not None:
            return
        index = self.plan[1 + place] if values_alone else _sparse_ids(batch, spec).dense_restore(self.plan[1 + place])
        internals.rewire(self.ops[0], 2 + place, index)
        self._embeddings[place].set_shape(index.shape.concatenate([self.table.shape.dim]))
        self.restore[place] = index
        self._sparse[spec] = values_alone

    def _look_up(self, restore: List[tf.Tensor], default_row: tf.Tensor) -> List[tf.Tensor]:
        # The variable itself, not a read of it: the gradient is asked for with respect to it.
        embeddings = native.ops().asc_lookup(
            rows=internals.reference_of(self.table.variable), slots=self.plan[0], restore=restore,
            default_row=default_row, table=self.table.shape.number if self.channel == EVAL else -1)
        self.ops.append(embeddings[0].op)
        return list(embeddings)


def require_fewer(table: Table, channel: int, count: int) -> None:
    """Raise ``RuntimeError`` where there are ``MAX_LOOKUPS`` lookups of a table in a channel already."""
    if count >= MAX_LOOKUPS:
        raise RuntimeError("table {!r} is looked up more than {} times in the {} channel".format(
            table.table_name, MAX_LOOKUPS, CHANNEL_NAMES[channel]))


def _sparse_ids(batch: Any, spec: FeatureSpec) -> Ids:
    """The places of sparse ids, which only the batch knows."""
    if batch is None:
        raise RuntimeError("FeatureSpec {!r} is sparse: its lookup needs batch=, what iterator.get_next() returned"
                           .format(spec.label))
    ids = find_ids(batch, spec)
    if ids is None or ids.is_dense:
        raise ValueError("FeatureSpec {!r}: the dataset submits a sparse tensor, batch= has {} in its place; give what "
                         "iterator.get_next() returned".format(spec.label, "nothing" if ids is None else "a dense one"))
    return ids
