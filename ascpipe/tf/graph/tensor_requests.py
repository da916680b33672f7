"""Requests of a program for graph modification of one graph, and their results."""
import dataclasses
from typing import Callable, Dict, List, NamedTuple, Set, Tuple

import tensorflow as tf

from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.sparse_table import Table

#: Gets the tensors of a batch, gives them and more.
Extend = Callable[..., Tuple[tf.Tensor, ...]]


class Extension(NamedTuple):
    """The tensors that graph modification added to the batches of an iterator.

    Attributes:
        given: the program's tensors of a batch.
        specs: all tensors of a batch.
        extend: makes them in the dataset.
        initializers: of the iterator, which give such batches.
    """

    given: List[tf.TensorSpec]
    specs: List[tf.TensorSpec]
    extend: Extend
    initializers: Set[tf.Operation]


@dataclasses.dataclass
class TensorLookup:
    """One ``sparse_lookup`` of a tensor of ids.

    Attributes:
        request: what the program asked for.
        name: of the tensor that it returned.
        ids: the tensor, integers; of sparse ids their values.
        spec: a feature that was made for these ids; each lookup has one of its own, and counts its ids.
        rows: the Identity whose input are the rows, once they can be looked up.
    """

    request: LookupRequest
    name: str
    ids: tf.Tensor
    spec: FeatureSpec
    rows: tf.Operation

    @property
    def table(self) -> Table:
        """The table."""
        return self.request.table

    @property
    def channel(self) -> int:
        """TRAIN or EVAL."""
        return self.request.channel

    @property
    def is_open(self) -> bool:
        """Whether it is not decided yet whether it trains."""
        return self.request.is_open

    def close(self, channel: int) -> None:
        """Decide it."""
        self.request = self.request.closed(channel)


class Requests:
    """Graph modification of one graph.

    Attributes:
        lookups: in the order in which the program made them.
        local: by name of an expansion table that is trained, what stands for its local rows and handles.
        merged: (table name, channel) whose lookups have become one op.
        extensions: by iterator, what it delivers since it was modified.
        initializers: per channel, one list for each iterator: the ops that initialise it.
        initializer_ops: per channel, what ``get_initializer`` gives.
        sliced: tensors that a slicer moves into the dataset, and that come out of ``get_next`` with the batch.
        carried: tensors that are made in the dataset beside ids, and come out of ``get_next`` with the batch.
        takes_orphans: whether ids that come from no iterator are moved into a dataset.
        done: whether the datasets carry the ids.
        extend_late_ops: extends what was made of an extended iterator since its last call.
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
        self.takes_orphans = False
        self.done = False
        self.extend_late_ops: Callable[[], None] = lambda: None

    def of(self, table_name: str, channel: int) -> List[TensorLookup]:
        """Lookups of a table in a channel."""
        return [lookup for lookup in self.lookups
                if lookup.table.table_name == table_name and lookup.channel == channel]

    def unmerged(self, channel: int) -> List[TensorLookup]:
        """Lookups of a channel that are not part of one op yet, open ones among those of training."""
        return [lookup for lookup in self.lookups
                if lookup.channel == channel and (lookup.table.table_name, channel) not in self.merged]
