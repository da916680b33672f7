"""Functions that raise an error if gradients of tables are not computed from lookups of the same step.

The checks apply to every optimizer. The position of a row in the variable is valid only in one step. A dense gradient,
or a gradient of another step, would silently change rows of other keys.
"""
from typing import Any, Iterable, List, Optional, Set, Tuple

import tensorflow as tf

from ascpipe.errors import TableUseError
from ascpipe.layout.words import TRAIN
from ascpipe.tf.graph.expansion import ExpansionLookup
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.row_numbers import SUM, origins_of, slots_summed_by
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.stand_ins import name_of

_NOTHING = ". Nothing was trained"
_WRITE = (". Keep the indices of the gradient and change only its values: tf.IndexedSlices(f(gradient.values), "
          "gradient.indices, gradient.dense_shape) instead of f(gradient)")
_DECAY = ". For weight decay, add factor * tf.gather(table.variable, gradient.indices) to the values"
_OVER_RANKS = (". If gradients of several ranks are reduced, as by hvd.DistributedOptimizer, use "
               "asc.DistributedOptimizer, which does not change gradients of tables")


def require_of_the_step(state: GraphState, optimizer: str, pairs: Iterable[Tuple[Any, Any]]) -> None:
    """Raise ``TableUseError`` if a gradient of a table is not computed from the training lookups of the table.

    Args:
        state: state of the graph of the tables.
        optimizer: name of the optimizer.
        pairs: pairs of a gradient and the variable to which it is applied.
    """
    tables = {id(table.variable): table for table in state.tables.values()}
    for gradient, target in pairs:
        table = tables.get(id(target))
        if table is not None and gradient is not None:
            _require(state, optimizer, table, gradient)


def _require(state: GraphState, optimizer: str, table: Table, gradient: Any) -> None:
    what = "optimizer {!r} got ".format(optimizer)
    if isinstance(gradient, tf.IndexedSlices):
        for origin in origins_of(gradient.indices):
            reason = _refusal_reason(state, table, origin)
            if reason is not None:
                raise TableUseError(name_of(state, table), what + reason)
    elif table.shape.expands:
        tensor = tf.convert_to_tensor(gradient)
        if not _is_of_local_rows(state, table, tensor):
            raise TableUseError(name_of(state, table), "{}the tensor {!r} as its gradient, which is not computed from "
                                "the gradient of its rows{}".format(what, tensor.name, _NOTHING))
    else:
        tensor = tf.convert_to_tensor(gradient)
        raise TableUseError(name_of(state, table), "{}the dense tensor {!r} ({}) as its gradient. The rows of its "
                            "variable belong to other keys in each step, so a dense gradient would change rows of keys "
                            "that are not in the batch{}{}{}".format(
                                what, tensor.name, tensor.op.type, _NOTHING, _WRITE, _DECAY))


def _refusal_reason(state: GraphState, table: Table, origin: tf.Tensor) -> Optional[str]:
    """Return the reason why row numbers are not valid for a table.

    Return None if the row numbers come from training lookups of the table.
    """
    slots = slots_summed_by(origin)
    if slots is None:
        return ("a gradient whose row numbers come from {!r} (op {}), not from the gradient of this step's lookups. "
                "Row numbers are valid only within one step, so they cannot be kept, fed, computed or received from "
                "another process{}{}{}".format(origin.name, origin.op.type, _NOTHING, _WRITE, _OVER_RANKS))
    sources = origins_of(slots)  # a tensor has a different name in a branch of a conditional
    for (name, channel), lookup in state.lookups.items():
        theirs = lookup.places if isinstance(lookup, ExpansionLookup) else lookup.plan[0]
        if all(theirs is source for source in sources):
            if name != table.table_name:
                return "a gradient of table {!r}, so gradients and variables are paired wrongly{}".format(
                    name_of(state, lookup.table), _NOTHING)
            return None if channel == TRAIN else "a gradient of evaluation lookups, which do not train" + _NOTHING
    return "a gradient of lookups in another graph" + _NOTHING


def _is_of_local_rows(state: GraphState, table: Table, gradient: tf.Tensor) -> bool:
    """Return whether a tensor is computed from an expansion table's local rows, or from the gradient of the local rows.
    """
    lookup = state.lookups.get((table.table_name, TRAIN))
    if not isinstance(lookup, ExpansionLookup):
        return False
    ends = {lookup.local.op, lookup.handles.op, lookup.places.op}
    seen: Set[tf.Operation] = set()
    layer: List[tf.Operation] = [gradient.op]
    while layer:  # breadth-first search, because one of the nearest ops usually matches
        for op in layer:
            if op in ends or (op.type == SUM and any(lookup.places is each for each in origins_of(op.inputs[0]))):
                return True
        seen.update(layer)
        layer = [op for op in {tensor.op for before in layer for tensor in before.inputs} if op not in seen]
    return False
