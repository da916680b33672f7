"""Lookups of tensors that need graph modification in one graph, and their results."""
import dataclasses
from typing import Callable, Dict, List, NamedTuple, Set, Tuple

import tensorflow as tf

from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.sparse_table import Table

#: Function of the tensors of a batch that returns them followed by more tensors.
Extend = Callable[..., Tuple[tf.Tensor, ...]]


class Extension(NamedTuple):
    """Tensors that graph modification added to the batches of an iterator.

    Attributes:
        given: the program's tensors of a batch.
        specs: all tensors of a batch.
        extend: computes them in the dataset.
        initializers: ops that initialize the iterator with extended datasets.
    """

    given: List[tf.TensorSpec]
    specs: List[tf.TensorSpec]
    extend: Extend
    initializers: Set[tf.Operation]


@dataclasses.dataclass
class TensorLookup:
    """One ``sparse_lookup`` of a tensor of ids.

    Attributes:
        request: its arguments.
        name: name of the returned tensor.
        ids: integers; for sparse ids, their values.
        spec: a feature that was created for this lookup alone.
        rows: an Identity whose input becomes the rows when the lookups are merged.
    """

    request: LookupRequest
    name: str
    ids: tf.Tensor
    spec: FeatureSpec
    rows: tf.Operation

    @property
    def table(self) -> Table:
        """Table of the request."""
        return self.request.table

    @property
    def channel(self) -> int:
        """TRAIN or EVAL."""
        return self.request.channel

    @property
    def is_open(self) -> bool:
        """True if it is undecided whether the lookup trains."""
        return self.request.is_open

    def close(self, channel: int) -> None:
        """Decide whether the lookup trains."""
        self.request = self.request.closed(channel)


class Requests:
    """Graph modification of one graph.

    Attributes:
        lookups: in order of creation.
        local: Identities for the local rows and handles of a trained expansion table, by table name.
        merged: (table name, channel) pairs whose lookups have become one op.
        extensions: by iterator.
        initializers: per channel, one list of initializer ops per iterator.
        initializer_ops: per channel, the op that ``get_initializer`` returns.
        sliced: tensors that a slicer moves into the dataset.
        carried: tensors that are computed in the dataset together with ids. Like sliced tensors, they are outputs of
            ``get_next``.
        moves_ids_without_iterator: True if ids that do not come from an iterator are moved into a dataset.
        done: True if the datasets carry the ids.
        extend_new_ops: extends ops of extended iterators that were created since its last call.
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
        """Return the lookups of a channel that are not merged. Open lookups are in TRAIN."""
        return [lookup for lookup in self.lookups
                if lookup.channel == channel and (lookup.table.table_name, channel) not in self.merged]
