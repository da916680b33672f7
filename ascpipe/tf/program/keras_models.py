"""Refuses Keras models that would run lookups in ``fit``, ``evaluate``, ``predict`` and similar methods."""
from typing import Any

import tensorflow as tf

from ascpipe.errors import ColumnError, TableLookupError
from ascpipe.tf import patches
from ascpipe.tf.graph.ancestors import ops_feeding
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIns

_LOOKUP = "AscLookup"
_REASON = (
    "a Keras model has looked-up rows as its input, and fit, evaluate, predict or a similar method was called. Keras "
    "would train only the weights of the model, not the tables, and cannot run a pipeline. Call layers and models as "
    "functions of the rows, and train with an optimizer of tf.compat.v1.train in a loop of session.run(), or in an "
    "Estimator: docs/tutorial/from-tensorflow.md, Keras")


@patches.KERAS_DATA.by
def _standardize_user_data(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Replace TensorFlow's method, which ``fit``, ``evaluate``, ``predict`` and similar methods call first."""
    data = patches.KERAS_DATA.plain(self, *args, **kwargs)
    _require_no_rows(self)
    return data


def _require_no_rows(model: Any) -> None:
    """Raise ``ColumnError``, or ``ValueError`` for a table without a column, if a model has looked-up rows as input."""
    ends = [tensor for tensor in tf.nest.flatten([model.inputs, model.outputs]) if isinstance(tensor, tf.Tensor)]
    state = GraphState.known(ends[0].graph) if ends else None
    if state is None or not (state.lookups or state.requests.lookups):
        return
    behind = set(ops_feeding(ends))
    variables = StandIns.of(state).variables()
    for lookup in state.requests.lookups:
        name = lookup.table.table_name
        if lookup.rows in behind:
            raise ColumnError(variables[name], _REASON) if name in variables else TableLookupError(
                "Table {!r}: {}".format(name, _REASON))
    if any(op.type == _LOOKUP for op in behind):
        raise TableLookupError("Tables {}: {}".format(", ".join(sorted(map(repr, state.tables))), _REASON))

