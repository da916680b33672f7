"""Finds the ops between ``IteratorGetNext`` and the tensor of ids of a lookup, and copies them.

They are copied into a function of the dataset, where there are no variables, nothing that is fed, and no state. Lookup
tables stay where they are, and the function reads them: those that never change, since batches are read ahead.
"""
from typing import Any, Collection, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import tensorflow as tf
from tensorflow.python.framework import function as legacy_function

from ascpipe.tf import internals
from ascpipe.tf.graph.dataset_graph import GET_NEXT

_FED = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp", "ReadVariableOp", "TemporaryVariable", "AutoReloadVariable")
#: Declared stateful so that they are not pruned; what they do is the same in a dataset.
_HARMLESS = ("Assert", "Print", "PrintV2")
_NO_QUEUES = ("A queue, as of numpy_input_fn and pandas_input_fn, cannot be read ahead exactly: let input_fn return a "
              "dataset, as tf.data.Dataset.from_tensor_slices((dict(features), labels)).shuffle(...).batch(...)")
_NOT_FED = ("What is fed is not known before its step: give the ids by a tf.data.Dataset, such as from_generator "
            "(docs/tutorial/from-tensorflow.md, Placeholders)")
#: Lookup tables whose content is the same from their initializer on, and the ops that read them.
_FIXED_TABLES = ("HashTableV2",)
_TABLE_READS = ("LookupTableFindV2", "LookupTableSizeV2")


class IdGraph(NamedTuple):
    """Ops that some tensors are made by.

    Attributes:
        get_nexts: where their batches come from.
        ops: between those and the tensors, in the order in which they were made.
        lookup_tables: that these read.
    """

    get_nexts: List[tf.Operation]
    ops: List[tf.Operation]
    lookup_tables: List[tf.Operation]


def id_graph(tensors: Iterable[tf.Tensor], given: Collection[str] = ()) -> IdGraph:
    """Ops that make tensors, control inputs included; the search ends at tensors whose names are ``given``."""
    get_nexts: Dict[str, tf.Operation] = {}
    lookup_tables: Dict[str, tf.Operation] = {}
    ops: Set[tf.Operation] = set()
    waiting = [tensor.op for tensor in tensors if tensor.name not in given]
    while waiting:
        op = waiting.pop()
        if op.type in GET_NEXT:
            get_nexts[op.name] = op
        elif op.type in _FIXED_TABLES:
            lookup_tables[op.name] = op
        elif op not in ops:
            ops.add(op)
            if _why_not(op) is None:  # what a refused op needs says nothing more
                waiting.extend(tensor.op for tensor in op.inputs if tensor.name not in given)
                waiting.extend(op.control_inputs)
    return IdGraph([get_nexts[name] for name in sorted(get_nexts)], sorted(ops, key=internals.order_of),
                   [lookup_tables[name] for name in sorted(lookup_tables)])


def require_movable(graph: IdGraph, what: str) -> None:
    """Raise ``ValueError`` that names each op that cannot run in a dataset; ``what`` says what needs it."""
    refused = [op for op in graph.ops if _why_not(op) is not None]
    if not refused:
        return
    cure = "Make the ids of the batch alone, or in dataset.map(...)"
    if any(op.type.startswith("QueueDequeue") for op in graph.ops):
        cure = _NO_QUEUES
    elif all(op.type in _FED for op in refused):
        cure = _NOT_FED
    raise ValueError("{} cannot be moved into the dataset, as {} cannot run there:\n  {}\n{}".format(
        what, "an op that makes it" if len(refused) == 1 else "{} ops that make it".format(len(refused)),
        "\n  ".join("{!r} ({}): {}".format(op.name, op.type, _why_not(op)) for op in refused), cure))


def _why_not(op: tf.Operation) -> Optional[str]:
    """Why an op cannot run in a dataset, or None."""
    if op.type in _FED:
        return "it is fed"
    handles = [tensor.op.name for tensor in op.inputs if tensor.op.type == "VarHandleOp"]
    if handles:
        return "it uses the variable {}".format(", ".join(map(repr, handles)))
    if op.type in _VARIABLES or any(map(internals.is_reference, op.outputs)):
        return "a variable"
    if op.type in _TABLE_READS and op.inputs[0].op.type in _FIXED_TABLES:
        return None
    resources = [tensor for tensor in [*op.inputs, *op.outputs] if tensor.dtype == tf.resource]
    if resources:
        return "it uses the resource {!r} ({}), which may change while batches are read ahead".format(
            resources[0].op.name, resources[0].op.type)
    if op.type not in _HARMLESS and op.op_def is not None and op.op_def.is_stateful:
        return "it is stateful"
    return None


def copy_into(tensors: Sequence[tf.Tensor], given: Mapping[str, tf.Tensor], scope: str, *,
              finds_tables: bool = False) -> List[tf.Tensor]:
    """Copy ops into the default graph, a function of a dataset, as one call.

    They are a function of their own, since TensorFlow adds control dependencies to the ops of the dataset's function
    and knows the branches and loops among copied ops no longer.

    Args:
        tensors: what is wanted.
        given: by name of a tensor that they are made of, what takes its place; all outputs of ``get_next`` among them.
            Lookup tables are taken from the graph around.
        scope: name scope of the copies.
        finds_tables: lookup tables are found by the names that they share, where nothing can be taken from around: in
            the dataset of a one-shot iterator.

    Returns:
        The copies of ``tensors``, with their static shapes.
    """
    wanted = [tensor for tensor in tensors if tensor.name not in given]
    _, ops, lookup_tables = id_graph(wanted, given)
    given = {**given, **{table.outputs[0].name: _found(table) if finds_tables else table.outputs[0]
                         for table in lookup_tables}}
    definition = tf.compat.v1.GraphDef()
    read: Dict[str, tf.Tensor] = {}
    copies = _Copies(ops)
    for op in ops:
        copies.add(definition, op)
        read.update({source.name: given[source.name] for source in op.inputs if source.name in given})
    copies.connect(definition)
    if ops:
        definition.versions.CopyFrom(ops[0].graph.graph_def_versions)
        _add_functions(definition, ops[0].graph)
    copied = [copies.name_of(tensor) for tensor in wanted]

    @legacy_function.Defun(*[tensor.dtype for tensor in read.values()])
    def make(*arguments: tf.Tensor) -> List[tf.Tensor]:
        made: List[tf.Tensor] = tf.import_graph_def(definition, dict(zip(read, arguments)), copied, name=scope)
        return made

    made = make(*read.values()) if copied else []
    found = iter(made if isinstance(made, (list, tuple)) else [made])
    results = [given[tensor.name] if tensor.name in given else next(found) for tensor in tensors]
    for result, tensor in zip(results, tensors):
        result.set_shape(tensor.shape)
    return results


def _found(table: tf.Operation) -> tf.Tensor:
    """The same lookup table, of the session that runs the default graph: an op of its shared name finds it."""
    attributes = {name: value for name, value in table.node_def.attr.items() if not name.startswith("_")}
    op = tf.compat.v1.get_default_graph().create_op(table.type, [], [tf.resource], attrs=attributes, name="table")
    return op.outputs[0]


def is_shared(table: tf.Operation) -> bool:
    """Whether a lookup table has a name by which others find it."""
    return bool(table.get_attr("shared_name"))


class _Copies:
    """Copies of ops. Of ops that make the same of the same there is one: columns make the ids of a feature each.

    Args:
        ops: what is copied, in the order in which they were made.
    """

    def __init__(self, ops: Sequence[tf.Operation]) -> None:
        self._names = {op.name for op in ops}
        self._first: Dict[Tuple[Any, ...], str] = {}  # by type, inputs and attributes, the name of the copy
        self._alike: Dict[str, str] = {}  # by name of an op, that of the copy which stands for it

    def name_of(self, tensor: tf.Tensor) -> str:
        """The name of the copy of a tensor."""
        op, _, place = tensor.name.partition(":")
        return "{}:{}".format(self._alike.get(op, op), place)

    def add(self, definition: tf.compat.v1.GraphDef, op: tf.Operation) -> None:
        """Copy an op into a graph, with the control inputs that are copied, too."""
        node = tf.compat.v1.NodeDef()
        node.CopyFrom(op.node_def)
        node.device = ""
        if "_class" in node.attr:
            del node.attr["_class"]  # it may name ops that stay behind
        inputs = [self._input(source) for source in node.input
                  if not source.startswith("^") or source[1:] in self._names]
        del node.input[:]
        node.input.extend(inputs)
        is_stateful = op.op_def is None or op.op_def.is_stateful  # of a function that is called by its name: None
        attributes = sorted((key, value.SerializeToString(deterministic=True)) for key, value in node.attr.items())
        what = (node.op, *inputs, *attributes)
        if not is_stateful and self._first.setdefault(what, op.name) != op.name:
            self._alike[op.name] = self._first[what]
        else:
            definition.node.add().CopyFrom(node)

    def connect(self, definition: tf.compat.v1.GraphDef) -> None:
        """Let copies read those that stand for others, once all are known: a branch's op is older than its switches."""
        for node in definition.node:
            inputs = [self._input(source) for source in node.input]
            del node.input[:]
            node.input.extend(inputs)

    def _input(self, source: str) -> str:
        prefix = "^" if source.startswith("^") else ""
        op, colon, place = source[len(prefix):].partition(":")
        return prefix + self._alike.get(op, op) + colon + place


def _add_functions(definition: tf.compat.v1.GraphDef, graph: tf.Graph) -> None:
    """The functions that the nodes call, and those that these call."""
    known: Set[str] = set()
    waiting = list(_called(definition.node))
    while waiting:
        name = waiting.pop()
        function = internals.function_in(graph, name) if name and name not in known else None
        if function is not None:
            known.add(name)
            definition.library.function.add().CopyFrom(function.definition)
            waiting.extend(_called(function.definition.node_def))


def _called(nodes: Iterable[tf.compat.v1.NodeDef]) -> Iterable[str]:
    for node in nodes:
        yield node.op  # a function may be called by its name
        for value in node.attr.values():
            if value.HasField("func"):
                yield value.func.name
            yield from (function.name for function in value.list.func)
