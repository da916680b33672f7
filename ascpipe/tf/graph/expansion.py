"""Training lookups of expansion tables: the rows of a batch as one tensor, and handles by which optimizers change them.

Rows are used where they live, in the shared memory that grows with the table.  So there is no variable to take
a gradient of: programs take it of the *local rows*, and give it to an optimizer together with the *handles*.
"""
from typing import Any, List

import tensorflow as tf

from ascpipe.layout.words import TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph import lookup_gradients  # noqa: F401  registers the gradient of lookups
from ascpipe.tf.graph.features import FeatureSpec, Stream
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.rewiring import origin_of, repoint
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.table_lookup import TableLookup
from ascpipe.tf.running import native

#: Collections of the local rows and of the handles of each table that is trained, in the same order.
LOCAL_ROWS = "ASCEND_SPARSE_LOOKUP_LOCAL_EMB"
HANDLES = "ASCEND_SPARSE_LOOKUP_ID_OFFSET"
#: Where older programs look for the handles of distinct keys; each key has one row of the local rows, so that these are
#: the same.
_UNIQUE_HANDLES = "ASCEND_SPARSE_LOOKUP_UNIQUE_KEYS"


class ExpansionLookup(TableLookup):
    """All training lookups of one expansion table.

    Attributes:
        local: float[distinct keys, dim], rows of the batch's keys before the step; zeros of keys without a row.
        handles: int64[distinct keys], valid in the step that made them; 0 of keys without a row.
        collected: whether what stands for them is in the collections already.
        places: int32[distinct keys], what stands for slots: rows of ``local``, -1 of keys without a row.
    """

    local: tf.Tensor
    handles: tf.Tensor
    places: tf.Tensor

    collected = False

    def note_gradient(self, spec: FeatureSpec) -> None:
        """Note that a feature's rows are trained; the first time, add the table's tensors to the collections."""
        if not self.with_gradient and not self.collected:
            collect(self.local, self.handles)
        super().note_gradient(spec)

    def replace(self, local: tf.Tensor, handles: tf.Tensor) -> None:
        """Feed the tensors into two Identities that were collected before, and read the rows from there."""
        repoint(self.local, local)
        internals.rewire(local.op, 0, self.local)
        internals.rewire(handles.op, 0, self.handles)
        self.collected = True

    def _look_up(self, restore: List[tf.Tensor], default_row: tf.Tensor) -> List[tf.Tensor]:
        self.handles, self.places, self.local = native.ops().asc_local_rows(
            slots=self.plan[0], ticket=self.ticket, table=self.table.shape.number, dim=self.table.shape.dim)
        embeddings = native.ops().asc_restore_rows(
            local=self.local, places=self.places, restore=restore, default_row=default_row)
        self.ops.append(embeddings[0].op)
        return list(embeddings)


def collect(local: tf.Tensor, handles: tf.Tensor) -> None:
    """Add the local rows of a table and their handles to the collections of the graph."""
    for collection, tensor in ((LOCAL_ROWS, local), (HANDLES, handles), (_UNIQUE_HANDLES, handles)):
        tensor.graph.add_to_collection(collection, tensor)


def new_lookup(table: Table, channel: int, stream: Stream, ticket: tf.Tensor) -> TableLookup:
    """All lookups of a table in a channel, of the kind that the table needs there."""
    kind = ExpansionLookup if table.shape.expands and channel == TRAIN else TableLookup
    return kind(table, channel, stream, ticket)


def lookup_of(handles: Any) -> ExpansionLookup:
    """The lookup that made handles. Raises ``ValueError`` for anything else."""
    if isinstance(handles, tf.Tensor):
        op = origin_of(handles)
        for lookup in GraphState.of(op.graph).lookups.values():
            if isinstance(lookup, ExpansionLookup) and lookup.handles.op is op and handles.dtype == tf.int64:
                return lookup
    raise ValueError("{!r} are no handles of an expansion table: give pairs zip(tf.gradients(loss, local), handles), "
                     "with local = tf.get_collection({!r}) and handles = tf.get_collection({!r})".format(
                         handles, LOCAL_ROWS, HANDLES))
