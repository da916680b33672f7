"""Functions that find the ops between ``IteratorGetNext`` and the ids of a lookup, and copy the ops into a dataset.

A function in a dataset cannot use variables, fed values or state. TensorFlow's lookup tables stay in the graph, and the
function reads them. The content of a lookup table must be constant, because batches are read ahead.
"""
from typing import Any, Collection, Container, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import tensorflow as tf
from tensorflow.python.framework import function as legacy_function

from ascpipe.errors import GraphModificationError
from ascpipe.tf import internals
from ascpipe.tf.graph.dataset_graph import GET_NEXT

_FED = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp", "ReadVariableOp", "TemporaryVariable", "AutoReloadVariable")
#: Ops that are stateful only to prevent pruning. These ops can run in a dataset.
_HARMLESS = ("Assert", "Print", "PrintV2")
_NO_QUEUES = ("Queues, which numpy_input_fn and pandas_input_fn use, cannot be read ahead exactly. Let input_fn return "
              "a dataset: tf.data.Dataset.from_tensor_slices((dict(features), labels)).shuffle(...).batch(...)")
_NOT_FED = ("Fed values are not known before their step. Read the ids from a tf.data.Dataset, for example "
            "from_generator (docs/tutorial/from-tensorflow.md, Placeholders)")
#: Lookup tables whose content is constant after initialization, and the ops that read lookup tables.
_FIXED_TABLES = ("HashTableV2",)
_TABLE_READS = ("LookupTableFindV2", "LookupTableSizeV2")


class IdGraph(NamedTuple):
    """Ops that compute given tensors.

    Attributes:
        get_nexts: the ops that return the batches.
        ops: the ops between ``get_nexts`` and the tensors, in order of creation.
        lookup_tables: the lookup tables that ``ops`` read.
    """

    get_nexts: List[tf.Operation]
    ops: List[tf.Operation]
    lookup_tables: List[tf.Operation]


def id_graph(tensors: Iterable[tf.Tensor], given: Collection[str] = ()) -> IdGraph:
    """Return the ops that compute the given tensors, including ops that are control inputs.

    The search does not continue beyond tensors whose names are in ``given``.
    """
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
            if _refusal_reason(op) is None:  # inputs of an op that cannot be moved are not needed
                waiting.extend(tensor.op for tensor in op.inputs if tensor.name not in given)
                waiting.extend(op.control_inputs)
    return IdGraph([get_nexts[name] for name in sorted(get_nexts)], sorted(ops, key=internals.order_of),
                   [lookup_tables[name] for name in sorted(lookup_tables)])


def require_movable(graph: IdGraph, what: str) -> None:
    """Raise ``ValueError`` if an op cannot run in a dataset. ``what`` is the subject of the error message."""
    refused = [op for op in graph.ops if _refusal_reason(op) is not None]
    if not refused:
        return
    cure = "Compute the ids from the batch alone, or in dataset.map(...)"
    if any(op.type.startswith("QueueDequeue") for op in graph.ops):
        cure = _NO_QUEUES
    elif all(op.type in _FED for op in refused):
        cure = _NOT_FED
    raise GraphModificationError("{} cannot be moved into the dataset, because {} cannot run there:\n  {}\n{}".format(
        what, "an op that computes it" if len(refused) == 1 else "{} ops that compute it".format(len(refused)),
        "\n  ".join("{!r} ({}): {}".format(op.name, op.type, _refusal_reason(op)) for op in refused), cure))


def _refusal_reason(op: tf.Operation) -> Optional[str]:
    """Return the reason why an op cannot run in a dataset, or None if there is no obstacle."""
    if op.type in _FED:
        return "it is fed"
    handles = [tensor.op.name for tensor in op.inputs if tensor.op.type == "VarHandleOp"]
    if handles:
        return "it uses the variable {}".format(", ".join(map(repr, handles)))
    if op.type in _VARIABLES or any(map(internals.is_reference, op.outputs)):
        return "it reads or changes a variable"
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
    """Copy ops into the default graph, which is the body of a dataset's function. The ops compute ``tensors``.

    The copies are placed in a separate function, which the default graph calls. If the copies were placed directly in
    the dataset's function, TensorFlow would add control dependencies to them, and would not recognize their branches
    and loops.

    Args:
        tensors: tensors to compute.
        given: tensor name -> replacement. It contains all outputs of ``get_next``. Lookup tables are captured from the
            outer graph.
        scope: name scope of the copies.
        finds_tables: True to find lookup tables by shared name, because the dataset of a one-shot iterator cannot
            capture tensors.

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

    @legacy_function.Defun(*[tensor.dtype for tensor in read.values()],
                           noinline=any(_joins_twice(op, read) for op in ops))
    def make(*arguments: tf.Tensor) -> List[tf.Tensor]:
        made: List[tf.Tensor] = tf.import_graph_def(definition, dict(zip(read, arguments)), copied, name=scope)
        return made

    made = make(*read.values()) if copied else []
    found = iter(made if isinstance(made, (list, tuple)) else [made])
    results = [given[tensor.name] if tensor.name in given else next(found) for tensor in tensors]
    for result, tensor in zip(results, tensors):
        result.set_shape(tensor.shape)
    return results


def _joins_twice(op: tf.Operation, arguments: Container[str]) -> bool:
    """Return whether ``op`` concatenates the same argument twice. TensorFlow 1.15 cannot run a graph into which a
    function with such an op is inlined ("self cycle fanin"). The same error occurs for ``y = tf.abs(x);
    tf.concat([y, y], 0)``.
    """
    read = [source.name for source in op.inputs if source.name in arguments]
    return op.type in ("Concat", "ConcatV2") and len(set(read)) < len(read)


def _found(table: tf.Operation) -> tf.Tensor:
    """Create an op that finds the session's lookup table by the shared name of ``table``."""
    attributes = {name: value for name, value in table.node_def.attr.items() if not name.startswith("_")}
    op = tf.compat.v1.get_default_graph().create_op(table.type, [], [tf.resource], attrs=attributes, name="table")
    return op.outputs[0]


def is_shared(table: tf.Operation) -> bool:
    """Return whether a lookup table has a shared name."""
    return bool(table.get_attr("shared_name"))


class _Copies:
    """Copies of ops without duplicates. Ops with the same type, inputs and attributes share a copy.

    Duplicates are frequent, because each column computes the ids of its feature.

    Args:
        ops: ops to copy, in order of creation.
    """

    def __init__(self, ops: Sequence[tf.Operation]) -> None:
        self._names = {op.name for op in ops}
        self._first: Dict[Tuple[Any, ...], str] = {}  # (type, inputs, attributes) -> name of the copy
        self._alike: Dict[str, str] = {}  # name of an op -> name of the shared copy

    def name_of(self, tensor: tf.Tensor) -> str:
        """Return the name of a tensor's copy."""
        op, _, place = tensor.name.partition(":")
        return "{}:{}".format(self._alike.get(op, op), place)

    def add(self, definition: tf.compat.v1.GraphDef, op: tf.Operation) -> None:
        """Copy an op into a graph. Control inputs are included if they are also copied."""
        node = tf.compat.v1.NodeDef()
        node.CopyFrom(op.node_def)
        node.device = ""
        if "_class" in node.attr:
            del node.attr["_class"]  # the attribute may contain names of ops that are not copied
        inputs = [self._input(source) for source in node.input
                  if not source.startswith("^") or source[1:] in self._names]
        del node.input[:]
        node.input.extend(inputs)
        is_stateful = op.op_def is None or op.op_def.is_stateful  # op_def is None if the op calls a function by name
        attributes = sorted((key, value.SerializeToString(deterministic=True)) for key, value in node.attr.items())
        what = (node.op, *inputs, *attributes)
        if not is_stateful and self._first.setdefault(what, op.name) != op.name:
            self._alike[op.name] = self._first[what]
        else:
            definition.node.add().CopyFrom(node)

    def connect(self, definition: tf.compat.v1.GraphDef) -> None:
        """Replace inputs from duplicate ops by the shared copies, in all nodes.

        Call this method after all ops are added. ``add`` cannot do this for all inputs, because an op in a branch is
        created before the Switch ops that it reads.
        """
        for node in definition.node:
            inputs = [self._input(source) for source in node.input]
            del node.input[:]
            node.input.extend(inputs)

    def _input(self, source: str) -> str:
        prefix = "^" if source.startswith("^") else ""
        op, colon, place = source[len(prefix):].partition(":")
        return prefix + self._alike.get(op, op) + colon + place


def _add_functions(definition: tf.compat.v1.GraphDef, graph: tf.Graph) -> None:
    """Add to a graph definition all functions that its nodes call, directly or indirectly."""
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
        yield node.op  # the type may be the name of a function
        for value in node.attr.values():
            if value.HasField("func"):
                yield value.func.name
            yield from (function.name for function in value.list.func)
