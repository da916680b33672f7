"""Search for the outputs of iterators that contain the tickets of streams.

The search follows the graph from ``IteratorGetNext`` to the datasets of the iterator and into the functions of ``map``.
The datasets of a one-shot iterator are in its factory function. An error is raised for dataset stages after the
submission that reorder, batch or repeat tickets.
"""
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import tensorflow as tf

from ascpipe.errors import DatasetError
from ascpipe.tf import internals
from ascpipe.tf.running.shapes import ReadSource

#: Output of a dataset or iterator -> number of the stream whose ticket the output contains.
Tickets = Dict[int, int]

GET_NEXT = ("IteratorGetNext", "IteratorGetNextSync")

_ITERATORS = ("Iterator", "IteratorV2", "AnonymousIterator", "AnonymousIteratorV2")

#: Stages that ``tf.data.Options`` adds.
OPTION_STAGES = (
    "OptimizeDataset", "ModelDataset", "MaxIntraOpParallelismDataset", "PrivateThreadPoolDataset", "ThreadPoolDataset",
    "LatencyStatsDataset", "BytesProducedStatsDataset", "SetStatsAggregatorDataset", "NonSerializableDataset",
    "OptionsDataset")

#: Stages that return the elements of their input unchanged and in order.
_IN_ORDER = frozenset((
    *OPTION_STAGES, "PrefetchDataset", "TakeDataset", "SkipDataset", "RepeatDataset", "FilterDataset",
    "FilterByLastComponentDataset", "AssertNextDataset", "IgnoreErrorsDataset", "TakeWhileDataset", "ShardDataset",
    "AssertCardinalityDataset", "Identity", "WrapDatasetVariant", "UnwrapDatasetVariant"))

_PARALLEL_MAPS = ("ParallelMapDataset", "ParallelMapDatasetV2", "MapAndBatchDataset", "MapAndBatchDatasetV2",
                  "NumaMapAndBatchDataset", "ChooseFastestBranchDataset")


class Marker(NamedTuple):
    """Type and attribute that identify the op that submits a batch.

    Attributes:
        op: type of the op.
        attribute: attribute of the op that contains the number of the stream.
    """

    op: str
    attribute: str


READ = "AscReadDataset"  #: op of the datasets that read files

#: Stages that return batches of their input in order. If a dataset starts at a later record, such a stage returns the
#: remaining batches.
_KEEP_POSITION = frozenset((
    *OPTION_STAGES, "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2", "PrefetchDataset", "TakeDataset",
    "FilterDataset", "FilterByLastComponentDataset", "TakeWhileDataset", "AssertNextDataset",
    "AssertCardinalityDataset", "Identity", "WrapDatasetVariant", "UnwrapDatasetVariant"))

ASC_SUBMIT = Marker("AscSubmit", "stream")


class Node(NamedTuple):
    """Node of a graph or function, and a function that returns the nodes of its inputs."""

    definition: Any
    inputs: Callable[[], List["Node"]]

    @property
    def kind(self) -> str:
        """Op type of a dataset stage, without the prefix of experimental stages."""
        return stage_kind(self.definition.op)


class DatasetGraph:
    """The datasets of one graph. The graph may grow between calls.

    Args:
        marker: identifies the op that submits a batch.
    """

    def __init__(self, graph: tf.Graph, marker: Marker = ASC_SUBMIT) -> None:
        self._graph = graph
        self._marker = marker
        # Results are cached, because ops and functions never change. Only the consumers of ops change.
        self._functions: Dict[str, Any] = {}
        self._known: Dict[tf.Operation, Tickets] = {}

    def get_nexts(self) -> List[tf.Operation]:
        """Return all ops in the graph that read an element from an iterator."""
        return [op for op in self._graph.get_operations() if op.type in GET_NEXT]

    def tickets(self, get_next: tf.Operation) -> Tickets:
        """Return the outputs of a ``get_next`` that contain tickets, with the stream number of each ticket.

        Raises:
            ValueError: a dataset stage reorders tickets, or the datasets of the iterator contain different streams.
        """
        found = self._iterator_tickets(self.iterator(get_next))
        if any(other != found[0] for other in found):
            raise DatasetError("Iterator {!r} is initialized from datasets with different insert functions. Create "
                               "an iterator for each dataset".format(self.iterator(get_next).name))
        return found[0] if found else {}

    def iterator(self, get_next: tf.Operation) -> tf.Operation:
        """Return the op that owns the iterator of a ``get_next``."""
        source = get_next.inputs[0].op
        while source.type == "Identity":
            source = source.inputs[0].op
        return source

    def ticket_of(self, stream: int, get_next: tf.Operation) -> Optional[tf.Tensor]:
        """Return the output of a ``get_next`` that contains the ticket of a stream, or None if no output contains the
        ticket.

        The method raises the same errors as ``tickets``.
        """
        for output, carried in self.tickets(get_next).items():
            if carried == stream:
                return get_next.outputs[output]
        return None

    def has_reads(self) -> bool:
        """Return whether the graph contains a dataset that reads files."""
        return any(op.type == READ for op in self._graph.get_operations())

    def reads(self, stream: int) -> List[ReadSource]:
        """Return the datasets that read files and submit their batches to a stream."""
        iterators = {self.iterator(get_next): stream in self.tickets(get_next).values()
                     for get_next in self.get_nexts()}
        by_iterator = {iterator: [read for _, node in self.datasets(iterator) for read in self._reads(node, None)]
                       for iterator in iterators}
        readers: Dict[int, List[tf.Operation]] = {}
        for iterator, reads in by_iterator.items():
            for source in {read.source for read in reads}:
                readers.setdefault(source, []).append(iterator)
        found = []
        for iterator, is_read in iterators.items():
            for read in by_iterator[iterator] if is_read else ():
                others = [other.name for other in readers[read.source] if other is not iterator]
                if others and read.obstacle is None:  # only the iterator that reads first would start at the position
                    read = read._replace(obstacle="a second iterator of the dataset ({})".format(others[0]))
                found.append(read)
        return list(dict.fromkeys(found))

    def _reads(self, node: Node, obstacle: Optional[str]) -> List[ReadSource]:
        if node.kind == READ:
            return [_read_source(node.definition, obstacle)]
        if node.kind not in _KEEP_POSITION:
            obstacle = "stage {} after asc.data.read".format(_name(node))
        found = [read for source in node.inputs() if is_dataset(source) for read in self._reads(source, obstacle)]
        return found + [_read_source(inner, "stage {} around asc.data.read".format(_name(node)))
                        for inner in self._called(node) if inner.op == READ]

    def run_ahead(self, get_next: tf.Operation) -> Optional[int]:
        """Return the number of submitted batches that ``prefetch`` buffers, or None if the number is not constant."""
        counts = [self._prefetched(node) for _, node in self.datasets(self.iterator(get_next))]
        known = [count for count in counts if count is not None]
        return min(known) if known else None

    def _prefetched(self, node: Node) -> Optional[int]:
        if self._submits(node):
            return 0
        carrying = [self._prefetched(source) for source in node.inputs()
                    if is_dataset(source) and self._dataset_tickets(source)]
        known = [count for count in carrying if count is not None]
        if len(known) < len(carrying) or not carrying:
            return None
        if node.kind != "PrefetchDataset":
            return min(known)
        buffered = _constant(node.inputs()[1])
        return None if buffered is None or buffered < 0 else min(known) + buffered

    def datasets(self, iterator: tf.Operation) -> List[Tuple[tf.Operation, Node]]:
        """Return each dataset that may initialize an iterator, together with the op that contains the dataset."""
        if iterator.type == "OneShotIterator":
            factory = self.function(iterator.get_attr("dataset_factory").name)
            (returned,) = factory.ret.values()
            return [(iterator, FunctionNodes(factory).node(returned))]
        if iterator.type not in _ITERATORS or not iterator.outputs:
            return []
        return [(consumer.inputs[0].op, _graph_node(consumer.inputs[0].op))
                for consumer in iterator.outputs[0].consumers() if consumer.type == "MakeIterator"]

    def _iterator_tickets(self, iterator: tf.Operation) -> List[Tickets]:
        datasets = self.datasets(iterator)
        for op, node in datasets:
            if op not in self._known:
                self._known[op] = self._dataset_tickets(node)
        return [self._known[op] for op, _ in datasets]

    def _dataset_tickets(self, node: Node) -> Tickets:
        kind = node.kind
        if kind == "MapDataset":
            return self._mapped(node)
        is_map = kind in ("ParallelMapDataset", "ParallelMapDatasetV2")
        if kind in _PARALLEL_MAPS and self._submits(node) and not (is_map and _constant(node.inputs()[-1]) == 1):
            raise DatasetError("Stage {}: map(insert_fn) must be sequential, because batches are trained in the "
                               "order of their tickets. Remove num_parallel_calls, or set it to 1, and do not fuse "
                               "the map with batch".format(_name(node)))
        if is_map:
            return self._mapped(node)
        if kind == "ZipDataset":
            return self._zipped(node)
        inputs = [self._dataset_tickets(source) for source in node.inputs() if is_dataset(source)]
        if kind == "ConcatenateDataset" and all(tickets == inputs[0] for tickets in inputs):
            return inputs[0]
        if kind in _IN_ORDER:
            return inputs[0] if inputs else {}
        if any(inputs) or self._submits(node):
            raise DatasetError("Stage {} comes after map(insert_fn) or around it, but does not pass on each batch "
                               "once and in order. Make map(insert_fn) the last stage before prefetch".format(
                                   _name(node)))
        return {}

    def _mapped(self, node: Node) -> Tickets:
        source = node.inputs()[0]
        before = self._dataset_tickets(source)
        function = self.function(node.definition.attr["f"].func.name)
        nodes = FunctionNodes(function)
        after: Tickets = {}
        for output, result in enumerate(function.signature.output_arg):
            origin = self._origin(nodes, function.ret[result.name])
            if isinstance(origin, tf.compat.v1.NodeDef):
                after[output] = origin.attr[self._marker.attribute].i
            elif origin in before:
                after[output] = before[origin]
        lost = sorted(set(before.values()) - set(after.values()))
        if lost:
            raise DatasetError("Stage {} drops the ticket of the batch, the extra tensor of map(insert_fn). Return "
                               "it, too, or make map(insert_fn) the last stage before prefetch".format(_name(node)))
        if self._submits(node) and not set(after.values()) - set(before.values()):
            raise DatasetError("Stage {} calls insert_fn but does not return the extra tensor of its result. Return "
                               "everything that insert_fn returns".format(_name(node)))
        return after

    def _zipped(self, node: Node) -> Tickets:
        tickets: Tickets = {}
        offset = 0
        for source in node.inputs():
            tickets.update({offset + output: stream for output, stream in self._dataset_tickets(source).items()})
            offset += len(source.definition.attr["output_types"].list.type)
        return tickets

    def _origin(self, nodes: "FunctionNodes", reference: str) -> Any:
        """Trace a value in a function to its origin.

        Return the NodeDef that submits the batch, the number of a function argument, or None if the origin is something
        else.
        """
        argument = nodes.argument(reference)
        if argument is not None:
            return argument
        node, output = nodes.producer(reference)
        if node.op == self._marker.op:
            return node
        if node.op == "Identity":
            return self._origin(nodes, node.input[0])
        if node.op in ("PartitionedCall", "StatefulPartitionedCall"):
            called = self.function(node.attr["f"].func.name)
            inner = self._origin(FunctionNodes(called), called.ret[called.signature.output_arg[output].name])
            return self._origin(nodes, node.input[inner]) if isinstance(inner, int) else inner
        return None

    def _submits(self, node: Node) -> bool:
        return any(inner.op == self._marker.op for inner in self._called(node))

    def _called(self, node: Node) -> Iterator[Any]:
        """Yield the nodes of all functions that a dataset stage calls."""
        names = [value.func.name for value in node.definition.attr.values() if value.HasField("func")]
        seen = set()
        while names:
            name = names.pop()
            if not name or name in seen:
                continue
            seen.add(name)
            for inner in self.function(name).node_def:
                yield inner
                names.extend(value.func.name for value in inner.attr.values() if value.HasField("func"))

    def function(self, name: str) -> Any:
        """Return the ``FunctionDef`` of a function of the graph."""
        if name not in self._functions:
            function = internals.function_in(self._graph, name)
            if function is None:
                raise ValueError("The graph has no function {!r}".format(name))
            self._functions[name] = function.definition
        return self._functions[name]


class FunctionNodes:
    """The nodes and arguments of a ``FunctionDef``."""

    def __init__(self, function: Any) -> None:
        self._nodes = {node.name: node for node in function.node_def}
        self._arguments = {argument.name: place for place, argument in enumerate(function.signature.input_arg)}

    def argument(self, reference: str) -> Optional[int]:
        """Return the number of the function argument that a reference names, or None if the reference names a node."""
        return self._arguments.get(reference.split(":")[0]) if reference.split(":")[0] not in self._nodes else None

    def producer(self, reference: str) -> Tuple[Any, int]:
        """Return the node and the output number to which a reference ``name:output:number`` refers."""
        parts = reference.split(":")
        return self._nodes[parts[0]], int(parts[2]) if len(parts) == 3 else 0

    def node(self, reference: str) -> Node:
        """Return the node to which a reference refers."""
        definition = self._nodes[reference.split(":")[0]]
        return Node(definition, lambda: [
            self.node(source) for source in definition.input
            if not source.startswith("^") and self.argument(source) is None])


def _read_source(definition: Any, obstacle: Optional[str]) -> ReadSource:
    return ReadSource(definition.attr["source"].i, definition.attr["data"].s.decode(), obstacle)


def stage_kind(op_type: str) -> str:
    """Return the op type of a dataset stage, without the prefix of experimental stages."""
    prefix = "Experimental"
    return op_type[len(prefix):] if op_type.startswith(prefix) else op_type


def _constant(node: Node) -> Optional[int]:
    return int(tf.make_ndarray(node.definition.attr["value"].tensor)) if node.definition.op == "Const" else None


def _graph_node(op: tf.Operation) -> Node:
    return Node(op.node_def, lambda: [_graph_node(tensor.op) for tensor in op.inputs])


def is_dataset(node: Node) -> bool:
    """Return True if a node returns a dataset."""
    return "Dataset" in node.definition.op or (node.definition.op == "Identity" and
                                               node.definition.attr["T"].type == tf.variant.as_datatype_enum)


def _name(node: Node) -> str:
    return "{} ({})".format(node.definition.op, node.definition.name)
