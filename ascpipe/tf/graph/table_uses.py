"""Search for ops that use rows of a table after the step that read the rows.

In the next step, the row of a key may have another position in the variable, or may not be in the variable. A program
may therefore access the variable and slot variables of a table only with row numbers of the same step. It must not keep
row numbers, or a gradient with row numbers, for a later step. TensorFlow would not raise an error for such uses, but
rows of other keys would be trained.
"""
from typing import Any, Dict, Iterator, List, NamedTuple

import tensorflow as tf

from ascpipe.layout.words import TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.expansion import ExpansionLookup
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.rewiring import origin_of
from ascpipe.tf.graph.row_numbers import SUM, inputs_with_numbers, is_choice, outputs_with_numbers
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.stand_ins import StandIns

_COPIES = frozenset((
    "CheckNumerics", "Enter", "Identity", "Merge", "PreventGradient", "Print", "RefEnter", "RefIdentity", "RefMerge",
    "RefSwitch", "Snapshot", "StopGradient", "Switch"))
#: Ops whose result does not depend on the rows of a variable, and ops that only display rows.
_HARMLESS = frozenset((
    "HistogramSummary", "IsVariableInitialized", "PrintV2", "Rank", "Shape", "ShapeN", "Size", "StringFormat",
    "ZerosLike", "OnesLike"))
#: Ops that reduce row numbers to values that do not identify rows, and ops that display row numbers.
_MEASURES = _HARMLESS | frozenset((
    "All", "Any", "AsString", "Assert", "Max", "Mean", "Min", "Prod", "Save", "SaveSlices", "SaveV2", "Sum"))
_SAVES = ("Save", "SaveSlices", "SaveV2")
_RESTORES = ("Restore", "RestoreSlice", "RestoreV2")
_GATHERS = ("Gather", "GatherNd", "GatherV2", "ResourceGather", "ResourceGatherNd")
#: Ops that convert a sparse gradient to a tensor with one row per slot.
_TO_DENSE = ("ScatterNd", "SparseToDense", "TensorScatterAdd", "TensorScatterUpdate", "UnsortedSegmentMax",
             "UnsortedSegmentMin", "UnsortedSegmentProd", "UnsortedSegmentSum")
#: Ops whose output contains rows of an input.
_BY_ROW = _COPIES | frozenset((
    "Abs", "Add", "AddN", "AddV2", "Cast", "ClipByValue", "Concat", "ConcatV2", "Div", "DivNoNan", "Exp", "ExpandDims",
    "Gather", "GatherV2", "IsFinite", "IsNan", "Log", "LogicalNot", "Maximum", "Minimum", "Mul", "Neg", "Pack", "Pow",
    "Reciprocal", "RealDiv", "Reshape", "Round", "Rsqrt", "Select", "SelectV2", "Sign", "Slice", "Sqrt", "Square",
    "Squeeze", "StridedSlice", "Sub", "Tanh"))
#: Prefixes of the types of ops that keep a value for later steps. Ops that read a ref variable may also keep a value.
_KEEPS = ("Accumulator", "Assign", "Barrier", "MapStage", "OrderedMapStage", "QueueEnqueue", "ResourceAccumulator",
          "ResourceApply", "ResourceScatter", "ResourceSparseApply", "SparseAccumulator", "Stage", "StackPush")


_SUM = "asc.optimizers.accumulate(optimizer, k) sums gradients over k batches"
_STATE = ("Keep state of rows in slot variables, which the optimizer creates by self._zeros_slot() or "
          "self._get_or_make_slot()")
_DECAY = "For weight decay, add factor * tf.nn.l2_loss(rows) to the loss, where rows is the output of the column"
_INDICES = "An optimizer may change only the rows at the indices of their gradient"
_MOVES_ALL = ("This optimizer updates all rows in each step, so it cannot train a table. To use it for variables "
              "only, call asc.Optimizer(dense=this one, sparse=another one)")
_SAVER = ("tf.train.Saver saves and restores rows with their keys; tf.train.Checkpoint and save_weights() of Keras do "
          "not")
#: Advice for moving averages.
AVERAGE = ("Average dense variables only: tf.trainable_variables() has no tables, and "
           "asc.Optimizer(dense=MovingAverageOptimizer(...), sparse=...) also trains tables")


class WrongUse(NamedTuple):
    """Forbidden use of rows, row numbers or gradients of a table.

    Attributes:
        what: predicate of the error message. It describes what the op does and with which tensor.
        instead: advice for the program.
    """

    op: tf.Operation
    what: str
    instead: str

    def sentence(self) -> str:
        """Return the error message that describes the forbidden use."""
        return "{} {}. {}".format("op {!r} ({})".format(self.op.name, self.op.type), self.what, self.instead)


class TableUses:
    """All uses of the rows, row numbers and gradient of one table in a graph."""

    def __init__(self, state: GraphState, table: Table) -> None:
        self._table = table
        self._columns = StandIns.of(state).keys()
        self._has_started = state.started
        lookup = state.lookups.get((table.table_name, TRAIN))
        slots: List[tf.Tensor] = []
        grown: List[tf.Tensor] = []
        if isinstance(lookup, ExpansionLookup):
            slots = [lookup.places]
            grown = [lookup.local, lookup.handles, *state.requests.local.get(table.table_name, ())]
        elif lookup is not None:
            slots = [lookup.plan[0]]
        self._variables = [table.variable, *table.optimizer_variables]
        self._handles = _copies_of(grown[1::2])
        self._rows = {tensor.name for tensor in _copies_of(grown)}
        self._of_variable: Dict[str, tf.Variable] = {}  # key: name of a reference or copy
        for variable in self._variables:
            for tensor in _copies_of([internals.reference_of(variable), variable.initial_value]):
                self._of_variable[tensor.name] = variable
        self._rows.update(self._of_variable)
        self._numbers: Dict[str, tf.Tensor] = {}
        self._dense: Dict[str, tf.Tensor] = {}  # one row per slot
        self._gradients: Dict[str, tf.Tensor] = {}  # one row per key of the step
        self._follow_numbers({tensor.name: tensor for tensor in _copies_of(slots)})

    def updates(self) -> List[tf.Operation]:
        """Return the ops that train rows of the table."""
        if self._handles:
            chosen = {tensor.name: tensor for tensor in self._handles}
            _spread(chosen, _numbers_kept)
            return [op for tensor in chosen.values() for op in tensor.consumers()
                    if op.type.startswith(("AscApply", "AscWriteRows"))]
        mine = [name for name, variable in self._of_variable.items() if variable is self._table.variable]
        return [op for name in mine for op in self._tensor(name).consumers()
                if op.type.startswith(("AscApply", "Scatter", "SparseApply"))]

    def wrong(self) -> Iterator[WrongUse]:
        """Yield the forbidden uses of rows, row numbers and gradients."""
        for name, variable in self._of_variable.items():
            tensor = self._tensor(name)
            for op in tensor.consumers():
                if op.type.startswith(("AscApply", "SparseApply")):
                    yield from self._check_update(op, variable)
                elif op.type not in _COPIES and not self._is_ours(op):
                    yield from self._check_use(op, tensor, variable)
        for tensor in [*self._numbers.values()]:
            for op in tensor.consumers():
                if not self._is_ours(op):
                    yield from self._check_number(op, tensor)
        for tensors in (self._dense, self._gradients):
            for tensor in [*tensors.values()]:
                for op in tensor.consumers():
                    if self._keeps(op, tensor):
                        yield WrongUse(op, "keeps rows of this step or their gradient for later steps, but in later "
                                           "steps these rows belong to other keys", _SUM)

    def _follow_numbers(self, slots: Dict[str, tf.Tensor]) -> None:
        _spread(slots, lambda op, tensor: list(op.outputs) if is_choice(op) and tensor is op.inputs[0] else [])
        sums = {op.name: op for tensor in slots.values() for op in tensor.consumers() if op.type == SUM}
        for op in sums.values():
            if op.inputs[0].name in slots:
                values, indices = op.outputs
                self._gradients[values.name] = values
                self._numbers[indices.name] = indices
        _spread(self._numbers, _numbers_kept)
        for tensor in self._numbers.values():
            for op in tensor.consumers():
                if op.type in _TO_DENSE:
                    self._dense.update((output.name, output) for output in op.outputs)
        _spread(self._dense, _rows_kept)
        for tensor in self._numbers.values():
            for op in tensor.consumers():
                if op.type in _GATHERS and (op.inputs[0].name in self._dense or op.inputs[0].name in self._rows):
                    self._gradients[op.outputs[0].name] = op.outputs[0]
        _spread(self._gradients, _rows_kept)

    def _check_update(self, op: tf.Operation, variable: tf.Variable) -> Iterator[WrongUse]:
        """Check an op that updates the rows whose numbers are in the op's input ``indices``.

        Ops that update rows by address do not have this input.
        """
        names = [argument.name for argument in op.op_def.input_arg]
        if "indices" in names and op.inputs[names.index("indices")].name not in self._numbers:
            yield WrongUse(op, "changes rows of {!r} by {!r}, which are not the indices of the gradient of this "
                           "step".format(variable.op.name, op.inputs[names.index("indices")].name), _INDICES)

    def _check_use(self, op: tf.Operation, tensor: tf.Tensor, variable: tf.Variable) -> Iterator[WrongUse]:
        name = variable.op.name
        is_first = tensor is op.inputs[0]
        if op.type in _HARMLESS or op is variable.initializer:
            return
        if op.type in _SAVES:
            yield WrongUse(op, "saves all rows of {!r} without their keys".format(name), _SAVER)
        elif op.type == "Assign" and is_first:
            value = origin_of(op.inputs[1])
            if value.type in _RESTORES:
                # At the start of the pipeline, such an op gets an input that raises an error.
                if self._has_started and not op.inputs[1].op.name.startswith("ascpipe/"):
                    yield WrongUse(op, "restores all rows of {!r} without their keys".format(name), _SAVER)
            elif not value.type.startswith("HorovodBroadcast"):
                yield WrongUse(op, "assigns values to all rows of {!r}, which belong to other keys in each step".format(
                    name), "The initializer of the table sets the initial values of rows; asc.warm_start() or a "
                           "Saver loads rows by their keys")
        elif "MovingAverage" in op.name or "MovingAvg" in op.name:
            yield WrongUse(op, "averages {!r} over steps, but its rows belong to other keys in each step".format(name),
                           AVERAGE)
        elif op.type in _GATHERS and is_first:
            if op.inputs[1].name not in self._numbers:
                yield WrongUse(op, "looks up rows of {!r} by {!r}. An id is not the number of a row".format(
                    name, op.inputs[1].name), "Look up ids by sparse_lookup(table, ids)")
        elif op.type.startswith("Scatter") and is_first:
            if op.inputs[1].name not in self._numbers:
                yield WrongUse(op, "changes rows of {!r} by {!r}. An id is not the number of a row".format(
                    name, op.inputs[1].name), _INDICES)
        else:
            updates = "/update_{}/".format(self._table.variable.op.name) in "/" + op.name
            yield WrongUse(op, "uses all rows of {!r}, which belong to other keys in each step and are never all "
                               "keys".format(
                name), _MOVES_ALL if updates else
                "Use the rows that sparse_lookup() returned, for example tf.nn.l2_loss(rows)")

    def _check_number(self, op: tf.Operation, tensor: tf.Tensor) -> Iterator[WrongUse]:
        if op.type in _MEASURES or op.type in _TO_DENSE or any(tensor is given for given in inputs_with_numbers(op)):
            return
        first = op.inputs[0].name
        if op.type in _GATHERS:
            if origin_of(op.inputs[0]).name in self._columns:
                yield WrongUse(op, "reads {!r} by the indices of a gradient, but its rows are in a table".format(first),
                               _DECAY)
            elif first not in self._rows and first not in self._dense:
                yield WrongUse(op, "looks up {!r} by the indices of a gradient, which refer to other keys in each "
                                   "step".format(first), _STATE)
        elif op.type.startswith(("Scatter", "SparseApply", "Apply")):
            if not any(given.name in self._rows for given in op.inputs):
                yield WrongUse(op, "keeps values in {!r} by the indices of a gradient, which refer to other keys in "
                                   "each step".format(first), _STATE)
        elif self._keeps(op, tensor):
            yield WrongUse(op, "keeps {!r}, the indices of a gradient, for later steps, but in later steps they "
                               "refer to other keys".format(tensor.name), _SUM)
        else:
            yield WrongUse(op, "computes with {!r}, the indices of a gradient. They are not ids, and refer to other "
                               "keys in each step".format(tensor.name),
                           "tf.gather and scatter ops of the table's variable accept them, within their step")

    def _keeps(self, op: tf.Operation, tensor: tf.Tensor) -> bool:
        if any(given.name in self._rows for given in op.inputs) or op.type in _COPIES or self._is_ours(op):
            return False
        if op.type.startswith("Scatter") and tensor.name in self._gradients:
            return False  # the indices are not row numbers (they may be keys)
        return op.type.startswith(_KEEPS) or any(map(internals.is_reference, op.inputs))

    def _tensor(self, name: str) -> tf.Tensor:
        return self._table.variable.graph.get_tensor_by_name(name)

    @staticmethod
    def _is_ours(op: tf.Operation) -> bool:
        return op.type.startswith("Asc") or op.name.startswith("ascpipe/")


def _copies_of(tensors: List[tf.Tensor]) -> List[tf.Tensor]:
    """Return ``tensors`` and all aliases and copies of these tensors."""
    found = {tensor.name: tensor for tensor in tensors}
    _spread(found, lambda op, tensor: list(op.outputs[:1] if op.type.endswith("Merge") else op.outputs) if (
        op.type in _COPIES or (internals.is_reference(tensor) and tensor is op.inputs[0] and op.outputs
                               and internals.is_reference(op.outputs[0]))) else [])
    return list(found.values())


def _numbers_kept(op: tf.Operation, tensor: tf.Tensor) -> List[tf.Tensor]:
    return outputs_with_numbers(op) if any(tensor is given for given in inputs_with_numbers(op)) else []


def _rows_kept(op: tf.Operation, tensor: tf.Tensor) -> List[tf.Tensor]:
    if op.type not in _BY_ROW or (op.type.startswith("Gather") and tensor is not op.inputs[0]):
        return []
    return list(op.outputs)


def _spread(found: Dict[str, tf.Tensor], outputs: Any) -> None:
    """For each op that reads a tensor in ``found``, add ``outputs(op, tensor)`` to ``found``. Repeat this for added
    tensors.
    """
    waiting = list(found.values())
    while waiting:
        tensor = waiting.pop()
        for op in tensor.consumers():
            for output in outputs(op, tensor):
                if output.name not in found:
                    found[output.name] = output
                    waiting.append(output)
