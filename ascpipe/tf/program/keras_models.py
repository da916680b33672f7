"""Functions that raise an error if a Keras model would run lookups in ``fit``, ``evaluate``, ``predict`` or a similar
method.
"""
from typing import Any

import tensorflow as tf

from ascpipe.errors import ColumnError, TableLookupError
from ascpipe.tf import patches
from ascpipe.tf.graph.ancestors import ops_feeding
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIns

_LOOKUP = "AscLookup"
_REASON = (
    "{} the input of a Keras model, and fit, evaluate, predict or a similar method was called. These methods run a "
    "graph function of Keras, which trains the weights of the model but no table, and cannot run a pipeline. Nothing "
    "was trained. Call layers and models as functions of the rows, and train with an optimizer of tf.compat.v1.train "
    "in a loop of session.run(), or in an Estimator (docs/tutorial/from-tensorflow.md, Keras)")


@patches.KERAS_DATA.by
def _standardize_user_data(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Replacement for the TensorFlow method that ``fit``, ``evaluate``, ``predict`` and similar methods call first."""
    data = patches.KERAS_DATA.plain(self, *args, **kwargs)
    _require_no_rows(self)
    return data


def _require_no_rows(model: Any) -> None:
    """Raise an error if the input of a model is computed from looked-up rows.

    The error is a ``ColumnError`` for a table of a column, or a ``TableLookupError`` for another table.
    """
    ends = [tensor for tensor in tf.nest.flatten([model.inputs, model.outputs]) if isinstance(tensor, tf.Tensor)]
    state = GraphState.known(ends[0].graph) if ends else None
    if state is None or not (state.lookups or state.requests.lookups):
        return
    behind = set(ops_feeding(ends))
    variables = StandIns.of(state).variables()
    for lookup in state.requests.lookups:
        name = lookup.table.table_name
        if lookup.rows in behind:
            if name in variables:
                raise ColumnError(variables[name], _REASON.format("rows of its table are"))
            raise TableLookupError(_REASON.format("Rows of table {!r} are".format(name)))
    if any(op.type == _LOOKUP for op in behind):
        tables = ", ".join(sorted(map(repr, state.tables)))
        raise TableLookupError(_REASON.format("Rows of tables {} are".format(tables)))

