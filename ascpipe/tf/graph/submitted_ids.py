"""Comparison of the ids in the batch of a lookup with the ids that the insert function submitted for this batch.

A lookup of a FeatureSpec returns the rows of the submitted ids. If a later op changes the ids of the batch, other ops
of the step would read other ids than the lookup.
"""
from typing import Any, Dict, FrozenSet, Optional, Set, Tuple, Union

import tensorflow as tf

from ascpipe.tf import internals
from ascpipe.tf.graph.dataset_graph import ASC_SUBMIT, GET_NEXT, DatasetGraph, FunctionNodes, Node, is_dataset
from ascpipe.tf.graph.features import FeatureSpec, Stream
from ascpipe.tf.graph.ids import Ids

#: Ops whose output has the values of their first input, in the same order.
_SAME_VALUES = frozenset((
    "Cast", "CheckNumerics", "EnsureShape", "ExpandDims", "Identity", "PreventGradient", "Reshape", "Snapshot",
    "Squeeze", "StopGradient", "Switch"))
#: Ops that return the ids of a sparse or ragged feature of a batch.
_DECODES = ("DeserializeSparse", "RaggedTensorFromVariant")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")

#: Number of an output -> streams, and numbers of the inputs of AscSubmit, whose ids the output contains.
_Carried = Dict[int, FrozenSet[Tuple[int, int]]]


class _UnknownError(Exception):
    """Error for a dataset function that calls another function to submit ids. The called function is not examined."""


def change_after_submission(datasets: DatasetGraph, stream: Stream, spec: FeatureSpec, ids: Ids) -> Optional[str]:
    """Return a phrase that says what changes the ids of a feature after they were submitted.

    Return None if the batch contains the submitted ids, or if the dataset is too complex to know it.

    Args:
        stream: stream of the feature.
        ids: ids of the feature in the batch that a lookup received.
    """
    tensor = ids.values
    while tensor.op.type in _SAME_VALUES:
        tensor = tensor.op.inputs[0]
    source = tensor.op
    if not ids.is_dense and source.type in (*GET_NEXT, *_DECODES):
        return None
    if source.type not in GET_NEXT:
        return "op {!r} ({}) changes them after get_next()".format(source.name, source.type)
    numbers = [number for number, feature in enumerate(stream.features) if feature.spec is spec]
    known: Dict[tf.Operation, Optional[_Carried]] = internals.stored_on(datasets, "carried_ids", dict)
    for op, node in datasets.datasets(datasets.iterator(source)):
        if op not in known:
            known[op] = _carried_or_unknown(datasets, node)
        carried = known[op]
        if carried is not None and not carried.get(tensor.value_index, frozenset()) & {
                (stream.number, number) for number in numbers}:
            return "the dataset changes them after the insert function"
    return None


def _carried_or_unknown(datasets: DatasetGraph, node: Node) -> Optional[_Carried]:
    try:
        return _carried(datasets, node)
    except _UnknownError:
        return None


def _carried(datasets: DatasetGraph, node: Node) -> _Carried:
    if node.kind in ("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2"):
        return _mapped(datasets, node)
    sources = [source for source in node.inputs() if is_dataset(source)]
    found = [_carried(datasets, source) for source in sources]
    if node.kind == "ZipDataset":
        carried: _Carried = {}
        offset = 0
        for source, inner in zip(sources, found):
            carried.update({offset + output: inputs for output, inputs in inner.items()})
            offset += len(source.definition.attr["output_types"].list.type)
        return carried
    if node.kind == "ConcatenateDataset":
        return {output: inputs & found[1].get(output, frozenset()) for output, inputs in found[0].items()}
    return found[0] if found else {}


def _mapped(datasets: DatasetGraph, node: Node) -> _Carried:
    before = _carried(datasets, node.inputs()[0])
    function = datasets.function(node.definition.attr["f"].func.name)
    nodes = FunctionNodes(function)
    submitted: Dict[Any, Set[Tuple[int, int]]] = {}
    for definition in function.node_def:
        if definition.op in _CALLS and any(inner.op == ASC_SUBMIT.op for inner in datasets.function(
                definition.attr["f"].func.name).node_def):
            raise _UnknownError
        if definition.op == ASC_SUBMIT.op:
            for number in range(len(definition.attr["Tids"].list.type)):
                pair = (definition.attr[ASC_SUBMIT.attribute].i, number)
                submitted.setdefault(_origin(nodes, definition.input[number]), set()).add(pair)
    found: _Carried = {}
    for output, result in enumerate(function.signature.output_arg):
        origin = _origin(nodes, function.ret[result.name])
        before_map = before.get(origin, frozenset()) if isinstance(origin, int) else frozenset()
        found[output] = before_map | submitted.get(origin, set())
    return found


def _origin(nodes: FunctionNodes, reference: str) -> Union[int, Tuple[str, int]]:
    """Return the source of the values of a reference: the number of a function argument, or a node and output."""
    argument = nodes.argument(reference)
    if argument is not None:
        return argument
    node, output = nodes.producer(reference)
    return _origin(nodes, node.input[0]) if node.op in _SAME_VALUES else (node.name, output)
