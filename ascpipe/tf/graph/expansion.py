"""Training lookups of expansion tables.

Rows are updated in shared memory, so a program cannot compute the gradient of a loss with respect to a variable.
Instead, programs compute the gradient with respect to the *local rows*, a tensor with the rows of the batch. They pass
the gradient to an optimizer together with the *handles* of the rows.
"""
from typing import Any, List

import tensorflow as tf

from ascpipe.errors import OptimizerError
from ascpipe.layout.words import TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph import lookup_gradients  # noqa: F401  registers the gradient of lookups
from ascpipe.tf.graph.features import FeatureSpec, Stream
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.rewiring import origin_of, repoint
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.table_lookup import TableLookup
from ascpipe.tf.running import native

#: Collections of the local rows and of the handles of trained tables. Both collections list the tables in the same
#: order.
LOCAL_ROWS = "ASCEND_SPARSE_LOOKUP_LOCAL_EMB"
HANDLES = "ASCEND_SPARSE_LOOKUP_ID_OFFSET"
#: Collection from which older programs read the handles of distinct keys. It contains the same tensors as ``HANDLES``.
_UNIQUE_HANDLES = "ASCEND_SPARSE_LOOKUP_UNIQUE_KEYS"


class ExpansionLookup(TableLookup):
    """All training lookups of one expansion table.

    Attributes:
        local: float[distinct keys, dim], rows before the step. The row is zero for keys without a row.
        handles: int64[distinct keys], valid within the step. The handle is 0 for keys without a row.
        collected: True if the collections already contain Identity ops of ``local`` and ``handles``.
        places: int32[distinct keys], row numbers in ``local``, which are used as slots. The number is -1 for keys
            without a row.
    """

    local: tf.Tensor
    handles: tf.Tensor
    places: tf.Tensor

    collected = False

    def note_gradient(self, spec: FeatureSpec) -> None:
        """Record that a feature's rows are trained.

        The first call adds the local rows and handles to the collections, unless the collections already contain them.
        """
        if not self.with_gradient and not self.collected:
            collect(self.local, self.handles)
        super().note_gradient(spec)

    def replace(self, local: tf.Tensor, handles: tf.Tensor) -> None:
        """Make ``self.local`` and ``self.handles`` the inputs of two Identity ops.

        ``local`` and ``handles`` are the outputs of the Identity ops, and are already in the collections. Ops that
        read ``self.local`` are changed to read ``local``.
        """
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
    """Add local rows and handles to the collections of their graph."""
    for collection, tensor in ((LOCAL_ROWS, local), (HANDLES, handles), (_UNIQUE_HANDLES, handles)):
        tensor.graph.add_to_collection(collection, tensor)


def new_lookup(table: Table, channel: int, stream: Stream, ticket: tf.Tensor) -> TableLookup:
    """Create the lookup object of a table in a channel.

    Return an ``ExpansionLookup`` for the training channel of an expansion table, otherwise a ``TableLookup``.
    """
    kind = ExpansionLookup if table.shape.expands and channel == TRAIN else TableLookup
    return kind(table, channel, stream, ticket)


def lookup_of(handles: Any) -> ExpansionLookup:
    """Return the lookup that returned the tensor ``handles``. Raise ``ValueError`` if there is no such lookup."""
    if isinstance(handles, tf.Tensor):
        op = origin_of(handles)
        for lookup in GraphState.of(op.graph).lookups.values():
            if isinstance(lookup, ExpansionLookup) and lookup.handles.op is op and handles.dtype == tf.int64:
                return lookup
    raise OptimizerError("{!r} are not handles of an expansion table. Pass pairs zip(tf.gradients(loss, local), "
                         "handles), with local = tf.get_collection({!r}) and handles = tf.get_collection({!r})".format(
                             handles, LOCAL_ROWS, HANDLES))
