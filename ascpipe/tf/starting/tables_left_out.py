"""Warnings that norms, histograms, averages and checkpoints of variables do not include tables."""
import logging
from typing import Any, List, NamedTuple, Sequence, Set, Tuple

import tensorflow as tf

from ascpipe.layout.words import TRAIN
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)

_READS = ("Identity", "ReadVariableOp", "Cast")
#: Ops of TensorFlow whose output contains rows of an input.
_BY_ROW = (*_READS, "Concat", "ConcatV2", "ExpandDims", "Gather", "GatherV2", "Pack", "Reshape", "Squeeze",
           "StridedSlice")
#: Name scope of a layer's regularizer. There is no warning about regularizers, because a program selects their
#: variables.
_OF_A_LAYER = "Regularizer"


class _Computed(NamedTuple):
    """Kind of value that programs compute from all trainable variables.

    Attributes:
        what: name of the value.
        types: types of the ops that compute the value.
        instead: alternative for tables.
    """

    what: str
    types: Tuple[str, ...]
    instead: str


_KINDS = (
    _Computed("an L2 norm or loss", ("L2Loss", "Square"), "add tf.nn.l2_loss(rows) of the rows that were looked up"),
    _Computed("histograms", ("HistogramSummary",), "tf.summary.histogram(name, rows) shows the rows of a batch"))
#: Key of the description of the saved objects, which only checkpoints of objects have.
_OBJECT_GRAPH = b"_CHECKPOINTABLE_OBJECT_GRAPH"
_OBJECTS = ("tf.train.Checkpoint and save_weights() of Keras save variables, but not the rows of table%s %s. After a "
            "restore, the rows would not match the variables. tf.train.Saver saves both")
_AVERAGE = ("moving averages of all trainable variables exclude the rows of %s, which have no moving average: "
            "evaluation with averaged variables reads the newest rows")


def warn_of_tables_left_out(state: GraphState) -> None:
    """Log a warning if norms, histograms or moving averages of all trainable variables omit the rows of tables.

    There is at most one warning per kind of value and process.
    """
    behind = StandIns.of(state).variables()
    trained = sorted(name for name, channel in state.lookups if channel == TRAIN and name not in behind)
    if not trained:
        return
    names = "table{} {}".format("s" if len(trained) > 1 else "", ", ".join(map(repr, trained)))
    graph = state.tables[trained[0]].variable.graph
    variables = _collected(graph)
    for kind in _KINDS:
        if variables and all(_is_read_by(variable, kind.types) for variable in variables) and not any(
                _reads_rows(state, op) for op in graph.get_operations() if op.type in kind.types):
            _warn(kind.what, "the program computes %s of all trainable variables, which do not include %s: %s",
                  kind.what, names, kind.instead)
    averaged = {id(each) for each in graph.get_collection(tf.compat.v1.GraphKeys.MOVING_AVERAGE_VARIABLES)}
    if variables and all(id(variable) in averaged for variable in variables):
        _warn("averages", _AVERAGE, names)


def warn_of_object_checkpoints(state: GraphState, graph: tf.Graph) -> None:
    """Log a warning if ``tf.train.Checkpoint`` or ``save_weights`` of Keras saves variables of a graph that trains
    tables.
    """
    trained = sorted(repr(name) for name, channel in state.lookups if channel == TRAIN)
    if trained and any(op.type == "SaveV2" and _OBJECT_GRAPH in _names_saved_by(op) for op in graph.get_operations()):
        _warn("object checkpoints", _OBJECTS, "s" if len(trained) > 1 else "", ", ".join(trained))


def _names_saved_by(op: tf.Operation) -> Sequence[bytes]:
    names = op.inputs[1].op
    return names.get_attr("value").string_val if names.type == "Const" else ()


def _warn(key: str, *message: Any) -> None:
    if Process.current().is_first(key):
        _log.warning(*message)


def _collected(graph: tf.Graph) -> List[Any]:
    """Return the trainable variables without biases, because programs often omit biases.

    If there are only biases, return the biases.
    """
    found = [*graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)]
    return [each for each in found if each.shape.rank is None or each.shape.rank > 1] or found


def _is_read_by(variable: Any, types: Sequence[str]) -> bool:
    waiting = list(variable.op.outputs)
    seen: Set[str] = set()
    while waiting:
        for op in waiting.pop().consumers():
            if op.type in types and _OF_A_LAYER not in op.name.split("/"):
                return True
            if op.type in _READS and op.name not in seen:
                seen.add(op.name)
                waiting.extend(op.outputs)
    return False


def _reads_rows(state: GraphState, op: tf.Operation) -> bool:
    lookups = {each for lookup in state.lookups.values() for each in lookup.ops}
    waiting = list(op.inputs)
    while waiting:
        source = waiting.pop().op
        if source in lookups:
            return True
        if source.type in _BY_ROW or source.type.startswith("Asc"):
            waiting.extend(source.inputs)
    return False
