"""Gradients with respect to rows of tables that replace variables of feature columns."""
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import tensorflow as tf

from ascpipe.errors import ColumnError, TableUseError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.expansion import HANDLES, LOCAL_ROWS, ExpansionLookup
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.stand_ins import StandIn, StandIns
from ascpipe.tf.modify import hooks
from ascpipe.tf.modify.open_lookups import require_none_evaluates

Pairs = List[Tuple[Any, Any]]


class _Source(NamedTuple):
    """Source of a gradient, and the tensor that replaces the source.

    Attributes:
        tensor: variable or tensor of rows with respect to which the gradient is computed.
        variable: variable or tensor that the program passed.
        stand_in: stand-in of the variable, or None if no table contains the rows of the variable.
    """

    tensor: Any
    variable: Any
    stand_in: Optional[StandIn]


def rows_for_stand_ins(losses: Any, sources: Any) -> Any:
    """Return the sources for ``tf.gradients``. Rows of tables replace the variables of columns.

    Args:
        losses: tensors whose gradients are computed.
        sources: variables and tensors with respect to which the gradients are computed.
    """
    given = list(sources) if isinstance(sources, (list, tuple)) else [sources]
    graphs = {internals.outermost(each.graph) for each in given if isinstance(each, tf.Variable)}
    state = GraphState.known(graphs.pop()) if len(graphs) == 1 else None
    if state is None or state.mode not in (None, tf.estimator.ModeKeys.TRAIN):
        return sources
    stand_ins = [StandIns.of(state).of_variable(each) for each in given]
    if not any(stand_ins):
        return sources
    hooks.merge_lookups(losses)
    require_none_evaluates(state, losses, stand_ins)
    found: List[Any] = []
    for each, stand_in in zip(given, stand_ins):
        if stand_in is not None:
            require_trains(state, stand_in)
        found.append((targets_of(state, stand_in) or [each])[0] if stand_in is not None else each)
    return found


def gradients_of_stand_ins(sources: Any, gradients: List[Any]) -> List[Any]:
    """Apply ``of_column`` to the gradients of columns, and return all gradients. Record tables without a gradient.

    Args:
        sources: variables and tensors that the program passed.
        gradients: one gradient per source.
    """
    given = list(sources) if isinstance(sources, (list, tuple)) else [sources]
    found: List[Any] = []
    for each, gradient in zip(given, gradients):
        state = GraphState.known(internals.outermost(each.graph)) if isinstance(each, tf.Variable) else None
        stand_in = None if state is None else StandIns.of(state).of_variable(each)
        if state is not None and stand_in is not None:
            if gradient is None:
                StandIns.of(state).unreached.add(stand_in.table.table_name)
            gradient = of_column(gradient)
        found.append(gradient)
    return found


def gradients_by_rows(state: GraphState, loss: Any, wanted: List[Any], compute: Callable[[List[Any]], Pairs]) -> Pairs:
    """Return pairs of gradients and variables for a graph with columns.

    The gradient of a column is computed with respect to the rows of its table. The pair contains the variable that
    TensorFlow created, because programs select gradients by variables and their names.

    Args:
        wanted: variables, and tensors that contain rows of tables.
        compute: TensorFlow's ``compute_gradients`` as a function of a list of variables and tensors.
    """
    found = [StandIns.of(state).of_variable(each) for each in wanted]
    columns = [each for each in found if each is not None]
    if state.mode not in (None, tf.estimator.ModeKeys.TRAIN):
        # Heads may request gradients in evaluation, but these gradients are never computed.
        others = [variable for variable, stand_in in zip(wanted, found) if stand_in is None]
        none = {id(each.variable): (tf.zeros_like(each.variable.initial_value), each.variable) for each in columns}
        return [*(compute(others) if others else []), *none.values()]
    require_none_evaluates(state, loss, found)
    of_tables = {id(rows) for each in columns for rows in targets_of(state, each)}
    sources: List[_Source] = []
    for variable, stand_in in zip(wanted, found):
        if stand_in is not None:
            require_trains(state, stand_in)
            sources.extend(_Source(rows, variable, stand_in) for rows in targets_of(state, stand_in))
        elif id(variable) not in of_tables:  # a second gradient would train the same rows again
            sources.append(_Source(variable, variable, None))
    pairs = compute([source.tensor for source in sources])
    handles = handles_in(tf.compat.v1.get_default_graph())
    return [_pair(state, source, gradient, handles) for source, (gradient, _) in zip(sources, pairs)]


def _pair(state: GraphState, source: _Source, gradient: Any, handles: Dict[int, tf.Tensor]) -> Tuple[Any, Any]:
    if gradient is not None:
        return gradient if source.stand_in is None else of_column(gradient), source.variable
    if source.stand_in is not None:  # not trained, like a variable on which the loss does not depend
        StandIns.of(state).unreached.add(source.stand_in.table.table_name)
    return None, handles.get(id(source.tensor), source.tensor)


def of_column(gradient: Any) -> Any:
    """Return a gradient whose static shape does not contain the table's number of rows.

    If the number were known, TensorFlow would reject ops on the gradient and the stand-in variable, which has 0 rows,
    with an error that does not name the table. Instead, the optimizer receives the dense result and raises E253.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    shape = tf.compat.v1.placeholder_with_default(gradient.dense_shape, [2], "ascpipe/shape")
    return tf.IndexedSlices(gradient.values, gradient.indices, shape)


def with_rows(state: GraphState, pairs: Pairs) -> Pairs:
    """Return pairs of gradients and variables. Rows of tables replace the variables of columns.

    In evaluation and prediction, the function removes the pairs of columns.

    Raises:
        ColumnError: the gradient of a column is None although the loss depends on the column's table.
        TableUseError: two pairs contain the rows of the same table.
    """
    found: Pairs = []
    stand_ins = StandIns.of(state)
    for gradient, target in pairs:
        stand_in = stand_ins.of_variable(target)
        if stand_in is None:
            found.append((gradient, target))
        elif state.mode in (None, tf.estimator.ModeKeys.TRAIN):
            if gradient is None and stand_in.table.table_name not in stand_ins.unreached:
                raise ColumnError(target.op.name, "its gradient is None, because its rows are in a table. Take the "
                                                  "gradient from tf.gradients(), or from compute_gradients() of an "
                                                  "optimizer")
            if gradient is not None and any(other is stand_in.table.variable and each is not None
                                            for each, other in pairs):
                raise TableUseError(target.op.name, "the pairs of gradients and variables contain this variable and "
                                                    "also the table with its rows, which would be trained twice. "
                                                    "Remove the table, which asc.table_variables() returns; "
                                                    "tf.trainable_variables() has the variable. Nothing was trained")
            handles = handles_in(target.graph)
            found.extend((gradient, handles.get(id(rows), rows)) for rows in targets_of(state, stand_in))
    return found


def variables_of(state: Optional[GraphState], optimizer: str, var_list: Any) -> Any:
    """Return the ``var_list`` of an optimizer, in which the variable of a table replaces the table.

    Raises:
        TableUseError: a table belongs to another graph.
    """
    if not any(isinstance(each, Table) for each in tf.nest.flatten(var_list)):
        return var_list
    found: List[Any] = []
    for each in tf.nest.flatten(var_list):
        if not isinstance(each, Table):
            found.append(each)
        elif state is None or state.tables.get(each.table_name) is not each:
            raise TableUseError(each.table_name, "the var_list of optimizer {!r} contains it, but it was created in "
                                                 "another graph. Create the table in the graph of the loss. Nothing "
                                                 "was trained".format(optimizer))
        else:
            found.extend(targets_of(state, StandIn(None, each, True)))
    return found


def require_trains(state: GraphState, stand_in: StandIn) -> None:
    """Raise ``ColumnError`` if a session ran before the program requested gradients.

    At the first run, a lookup without gradients becomes an evaluation lookup.
    """
    name = stand_in.table.table_name
    if (name, TRAIN) not in state.lookups and (name, EVAL) in state.lookups and stand_in.trains:
        raise ColumnError(stand_in.variable.op.name, "a session of this graph ran before gradients were computed, "
                                                     "and looks its table up for evaluation. Call minimize() or "
                                                     "compute_gradients() before the first run of a session")


def targets_of(state: GraphState, stand_in: StandIn) -> List[Any]:
    """Return a list with the tensor that replaces a stand-in when gradients are computed.

    The tensor is the variable of the table, or the local rows of an expansion table. The list is empty if no lookup
    trains the expansion table.
    """
    if not stand_in.table.shape.expands:
        return [stand_in.table.variable]
    name = stand_in.table.table_name
    if name in state.requests.local:
        return [state.requests.local[name][0]]
    lookup = state.lookups.get((name, TRAIN))
    return [lookup.local] if isinstance(lookup, ExpansionLookup) and lookup.with_gradient else []


def handles_in(graph: tf.Graph) -> Dict[int, tf.Tensor]:
    """Return a dict for expansion tables: ``id()`` of a table's local rows -> tensor with the handles of these rows."""
    return {id(local): handles for local, handles in zip(
        graph.get_collection(LOCAL_ROWS), graph.get_collection(HANDLES))}
