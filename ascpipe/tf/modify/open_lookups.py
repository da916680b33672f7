"""Functions that decide which lookups of feature columns are training lookups, if no Estimator builds the graph.

A lookup is a training lookup if the loss of an optimizer depends on it. A graph may contain a tower that trains and a
tower that evaluates, with the same tables and separate datasets. Only the loss distinguishes the two towers.
"""
from typing import Any, Dict, List, Optional, Set

import tensorflow as tf

from ascpipe.errors import ColumnError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf.graph.ancestors import ops_feeding
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIn
from ascpipe.tf.graph.tensor_requests import TensorLookup
from ascpipe.tf.modify.id_graph import id_graph


def close_open_lookups(state: GraphState, loss: Any) -> None:
    """Close the open lookups of the tables that a loss trains.

    A lookup becomes a training lookup if a gradient of the loss reaches it, or if it uses the same batches as such a
    lookup of the same table. Other lookups of the table become evaluation lookups. Lookups of tables that the loss does
    not train remain open.

    Args:
        loss: tensors, or a function. If it is a function, all lookups are training lookups.
    """
    lookups = [lookup for lookup in state.requests.lookups if lookup.is_open]
    reached = None if callable(loss) else _reached_by(loss)
    batches: Dict[str, List[List[tf.Operation]]] = {}  # table name -> batches of training lookups
    for lookup in lookups:
        if reached is None or lookup.rows in reached:
            batches.setdefault(lookup.table.table_name, []).append(_get_nexts(lookup))
            lookup.close(TRAIN)
    for lookup in lookups:
        name = lookup.table.table_name
        if lookup.is_open and name in batches:
            lookup.close(TRAIN if _get_nexts(lookup) in batches[name] else EVAL)


def require_none_evaluates(state: GraphState, loss: Any, wanted: List[Optional[StandIn]]) -> None:
    """Raise ``ColumnError`` if the loss depends on an evaluation lookup of a table that should be trained."""
    evaluating = [lookup for lookup in state.requests.lookups if lookup.channel == EVAL]
    if not evaluating or callable(loss):
        return
    by_table = {stand_in.table.table_name: stand_in for stand_in in wanted if stand_in is not None and stand_in.trains}
    reached = _reached_by(loss)
    for lookup in evaluating:
        if lookup.table.table_name in by_table and lookup.rows in reached:
            raise ColumnError(
                by_table[lookup.table.table_name].variable.op.name, "an earlier minimize() or compute_gradients() "
                "trains it, and this loss trains it by a tower that was built later, or uses batches of another "
                "iterator. Build all towers that train, over one get_next(), before the first minimize() or "
                "compute_gradients()")


def _reached_by(loss: Any) -> Set[tf.Operation]:
    tensors = [tensor for tensor in tf.nest.flatten(loss) if isinstance(tensor, (tf.Tensor, tf.Variable))]
    return set(ops_feeding(tensors, ("StopGradient",)))


def _get_nexts(lookup: TensorLookup) -> List[tf.Operation]:
    return id_graph([lookup.ids]).get_nexts
