"""Records for the modification of one graph: the lookups of id tensors, and the results of the modification."""
import dataclasses
from typing import Callable, Dict, List, NamedTuple, Set, Tuple

import tensorflow as tf

from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.sparse_table import Table

#: Function that receives the tensors of a batch, and returns these tensors followed by more tensors.
Extend = Callable[..., Tuple[tf.Tensor, ...]]


class Extension(NamedTuple):
    """Tensors that graph modification added to the batches of an iterator.

    Attributes:
        given: tensors of a batch before the modification.
        specs: all tensors of a batch after the modification.
        extend: function that computes all tensors in the dataset.
        initializers: ops that initialize the iterator with an extended dataset.
    """

    given: List[tf.TensorSpec]
    specs: List[tf.TensorSpec]
    extend: Extend
    initializers: Set[tf.Operation]


@dataclasses.dataclass
class TensorLookup:
    """One call of ``sparse_lookup`` with an id tensor.

    Attributes:
        request: arguments of the lookup.
        name: name of the returned tensor.
        ids: tensor of integers. For sparse ids, the values.
        spec: feature that was created only for this lookup.
        rows: Identity op, whose input is set to the rows when the lookups are merged.
    """

    request: LookupRequest
    name: str
    ids: tf.Tensor
    spec: FeatureSpec
    rows: tf.Operation

    @property
    def table(self) -> Table:
        """Return the table of the request."""
        return self.request.table

    @property
    def channel(self) -> int:
        """Return the channel of the lookup, TRAIN or EVAL."""
        return self.request.channel

    @property
    def is_open(self) -> bool:
        """Return True if the program may still decide whether the lookup trains."""
        return self.request.is_open

    def close(self, channel: int) -> None:
        """Set the final channel of an open lookup."""
        self.request = self.request.closed(channel)


class Requests:
    """Lookups of id tensors in one graph, and the results of the graph modification.

    Attributes:
        lookups: lookups in order of creation.
        local: table name -> Identity tensors for the local rows and for the handles of a trained expansion table.
        merged: pairs (table name, channel) whose lookups were merged into one op.
        extensions: extensions by iterator.
        initializers: channel -> one list of initializer ops per iterator.
        initializer_ops: channel -> op that ``get_initializer`` returns.
        sliced: tensors that a slicer moves into the dataset.
        carried: tensors that the dataset computes together with the ids. Carried and sliced tensors are outputs of
            ``get_next``.
        moves_ids_without_iterator: True if ids that are not computed from an iterator are moved into a dataset.
        done: True if the datasets contain the ids.
        extend_new_ops: function that extends new ops of extended iterators. An op is new if no earlier call has
            extended it.
    """

    def __init__(self) -> None:
        self.lookups: List[TensorLookup] = []
        self.local: Dict[str, Tuple[tf.Tensor, tf.Tensor]] = {}
        self.merged: Set[Tuple[str, int]] = set()
        self.extensions: Dict[tf.Operation, Extension] = {}
        self.initializers: Dict[int, List[List[tf.Operation]]] = {}
        self.initializer_ops: Dict[int, tf.Operation] = {}
        self.sliced: List[tf.Tensor] = []
        self.carried: List[tf.Tensor] = []
        self.moves_ids_without_iterator = False
        self.done = False
        self.extend_new_ops: Callable[[], None] = lambda: None

    def of(self, table_name: str, channel: int) -> List[TensorLookup]:
        """Return the lookups of a table in a channel."""
        return [lookup for lookup in self.lookups
                if lookup.table.table_name == table_name and lookup.channel == channel]

    def unmerged(self, channel: int) -> List[TensorLookup]:
        """Return the lookups of a channel that were not merged yet. Open lookups are in the channel TRAIN."""
        return [lookup for lookup in self.lookups
                if lookup.channel == channel and (lookup.table.table_name, channel) not in self.merged]
