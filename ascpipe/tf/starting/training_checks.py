"""Functions that raise an error if a graph does not train its tables, or uses rows after the step that read the rows.
"""
import logging
from typing import Any, Dict, List, Set

import tensorflow as tf

from ascpipe.errors import ColumnError, TableLookupError, TableUseError, UntrainedTableError
from ascpipe.layout.words import TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.ancestors import ops_behind, ops_feeding, ops_reached_by_gradients
from ascpipe.tf.graph.expansion import ExpansionLookup
from ascpipe.tf.graph.gradient_state import GradientState
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.rewiring import origin_of
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.stand_ins import StandIns, name_of
from ascpipe.tf.graph.table_uses import TableUses
from ascpipe.tf.graph.untrained import how_to_train
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)

_SHARED_BY_NAME = ("; a tower that evaluates uses the table of the training tower if their variables have the same "
                   "name: variable_scope(NAME, reuse=tf.compat.v1.AUTO_REUSE)")
#: Prefixes of the types of ops that update a variable. Ops in ``_ASSIGNS`` may instead initialize or restore a
#: variable.
_UPDATES = ("Apply", "AssignAdd", "AssignSub", "ResourceApply", "ResourceScatter", "ResourceSparseApply", "Scatter",
            "SparseApply")
_ASSIGNS = ("Assign", "AssignVariableOp")
_LOADS = ("Placeholder", "PlaceholderWithDefault", "Restore", "RestoreSlice", "RestoreV2")


def require_safe_training(state: GraphState) -> None:
    """Check how the ops of a graph train tables and use the rows of tables.

    Raises:
        TableLookupError: a lookup waits for an update of its table.
        TableUseError: an op uses rows of a table, row numbers or a gradient after the step that read the rows, or one
            optimizer accumulates gradients of tables whose ids come from different datasets.
        UntrainedTableError, ColumnError: a loss depends on the rows of a table that no op updates.
        RuntimeError: in a program with Rec SDK's API, no training lookup of a table has a gradient.
    """
    uses = {name: TableUses(state, table) for name, table in state.tables.items()}
    for name, table in state.tables.items():
        wrong = sorted(uses[name].wrong(), key=lambda use: internals.order_of(use.op))
        if wrong:
            raise TableUseError(name_of(state, table), wrong[0].sentence() + ". Nothing was trained")
    _require_common_cycles(state)
    require_trained(state, uses)
    _require_lookups_before_updates(state, uses)


def warn_of_losses_without_tables(state: GraphState) -> None:
    """Warn if an optimizer minimizes a loss over all variables, but not over the tables on which the loss depends.

    There is no warning about a table if the program computes its gradients apart from those of variables, because
    one optimizer then trains variables, and another one tables.
    """
    known = GradientState.of(state)
    if state.mode not in (None, tf.estimator.ModeKeys.TRAIN) or not Process.current().is_plain:
        return
    behind = StandIns.of(state).variables()
    tables = [table for name, table in state.tables.items() if name not in behind and name not in known.apart
              and _wants_gradient(state, table)]
    for optimizer, loss in known.without_tables:
        names = [repr(name_of(state, table)) for table in tables if not _ends_of(state, table).isdisjoint(
            ops_reached_by_gradients([loss]))]
        if names and Process.current().is_first("losses without tables"):
            _log.warning(
                "optimizer %r trains all trainable variables by the loss %r, but not table%s %s, which another "
                "optimizer trains. If it should train them, too, as it trains variables of TensorFlow, pass var_list="
                "tf.trainable_variables() + asc.table_variables()", optimizer, loss.name,
                "s" if len(names) > 1 else "", ", ".join(names))


def _require_lookups_before_updates(state: GraphState, uses: Dict[str, TableUses]) -> None:
    """Raise ``TableLookupError`` if a lookup waits for an update of its table. A lookup reads rows before the update.

    In a program with Rec SDK's API, log a warning instead.
    """
    behind: Dict[str, Set[tf.Operation]] = {}
    for name, ops in state.waiting:
        if name not in behind:
            behind[name] = ops_behind(uses[name].updates(), by_control=True)
        late = [op for op in ops if op in behind[name]]
        if not late:
            continue
        text = ("Table {!r} is looked up after op {!r}, which updates the table in the same step, but a lookup reads "
                "rows before the update. {}Remove the lookup from tf.control_dependencies() or tf.cond(), and run it "
                "in another session.run() after the update".format(
                    name_of(state, state.tables[name]), late[0].name,
                    "Nothing was trained. " if Process.current().is_plain else ""))
        if Process.current().is_plain:
            raise TableLookupError(text)
        if Process.current().is_first("lookups after updates"):
            _log.warning("%s", text)


def _require_common_cycles(state: GraphState) -> None:
    first: Dict[Any, Table] = {}
    for name, known in GradientState.of(state).accumulated.items():
        table = state.tables[name]
        other = first.setdefault(known.optimizer, table)
        lookups = [state.lookups[(each.table_name, TRAIN)] for each in (table, other)]
        if lookups[0].ticket is not lookups[1].ticket:
            raise TableUseError(name_of(state, table), "one optimizer of accumulate() trains it and table {!r}, "
                                                       "whose ids come from two datasets, so their cycles end at "
                                                       "different batches. Use one optimizer for each dataset. "
                                                       "Nothing was trained".format(name_of(state, other)))


def require_trained(state: GraphState, uses: Dict[str, TableUses]) -> None:
    """Raise an error of ``require_safe_training`` if no op trains a table that must be trained."""
    if not Process.current().is_plain:
        for (name, channel), lookup in state.lookups.items():
            if channel == TRAIN and not lookup.with_gradient and state.tables[name].trainable:
                raise TableLookupError("Table {!r} cannot be trained: all its training lookups have is_grad=False. "
                                       "If its rows must not change, look it up with is_train=False. Otherwise set "
                                       "is_grad=True in one lookup".format(name))
    if state.mode not in (None, tf.estimator.ModeKeys.TRAIN):
        return  # the Estimator does not run a training op in this mode
    untrained = [table for name, table in state.tables.items() if not uses[name].updates()]
    behind = StandIns.of(state).variables()
    trains_something = bool(untrained) and _trains_something(state, uses)
    for table in untrained:
        if table.table_name in behind and trains_something:
            _require_trained_column(state, behind[table.table_name], table)
    forgotten = [table for table in untrained if table.table_name not in behind and _wants_gradient(state, table)]
    if forgotten and trains_something:
        forgotten = [table for table in forgotten if _is_differentiated(state, table)]
        if forgotten:
            raise UntrainedTableError(name_of(state, forgotten[0]), how_to_train(
                Process.current(), [table.table_name for table in forgotten[1:]]))


def _require_trained_column(state: GraphState, variable: str, table: Table) -> None:
    stand_ins = StandIns.of(state)
    stand_in = stand_ins[variable]
    if not stand_in.trains:
        return
    is_differentiated = _is_differentiated(state, table)
    # In a graph with an optimizer, a lookup on which no loss depends is an error in the program. If a loss depends on
    # the lookup only through tf.stop_gradient, the program freezes the rows on purpose.
    reads_beside = state.mode is None and stand_in.variable.graph.get_collection(tf.compat.v1.GraphKeys.TRAIN_OP)
    if is_differentiated or reads_beside and table.table_name not in stand_ins.unreached and _ends_of(
            state, table).isdisjoint(ops_feeding(_losses(state, table.variable.graph))):
        raise ColumnError(variable, "its table {!r} is looked up {}, but no optimizer updates it. Gradients of "
                                    "tables come from tf.gradients(), and from compute_gradients() and minimize() of "
                                    "optimizers of tf.compat.v1.train, for all trainable variables or a var_list "
                                    "with this one. To keep its values, create the column with "
                                    "trainable=False{}".format(
                              table.table_name, *(("in training", "") if is_differentiated else (
                                  "beside an optimizer", _SHARED_BY_NAME))))


def _wants_gradient(state: GraphState, table: Table) -> bool:
    lookup = state.lookups.get((table.table_name, TRAIN))
    return lookup is not None and bool(lookup.with_gradient)


def _is_differentiated(state: GraphState, table: Table) -> bool:
    return not _ends_of(state, table).isdisjoint(ops_reached_by_gradients(_losses(state, table.variable.graph)))


def _ends_of(state: GraphState, table: Table) -> Set[tf.Operation]:
    ends = {table.variable.op, *(tensor.op for tensor in state.requests.local.get(table.table_name, ())),
            *(lookup.rows for lookup in state.requests.lookups if lookup.table is table)}
    lookup = state.lookups.get((table.table_name, TRAIN))
    if isinstance(lookup, ExpansionLookup):
        ends.add(lookup.local.op)
    return ends


def _losses(state: GraphState, graph: tf.Graph) -> List[tf.Tensor]:
    losses: List[tf.Tensor] = []
    waiting = list(GradientState.of(state).losses.values())
    while waiting:
        loss = waiting.pop()
        if loss.graph is graph:
            losses.append(loss)
        else:  # the loss is in a function body, so the captured tensors are treated as losses
            waiting.extend(internals.captured_by(loss.graph))
    return losses


def _trains_something(state: GraphState, uses: Dict[str, TableUses]) -> bool:
    graph = next(iter(state.tables.values())).variable.graph
    if graph.get_collection(tf.compat.v1.GraphKeys.TRAIN_OP) or any(each.updates() for each in uses.values()):
        return True
    variables = [*graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES),
                 *graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_RESOURCE_VARIABLES)]
    return any(_is_updated(variable) for variable in variables)


def _is_updated(variable: Any) -> bool:
    for op in variable.op.outputs[0].consumers():
        if op.type.startswith(_UPDATES):
            return True
        if op.type in _ASSIGNS and op is not variable.initializer and origin_of(op.inputs[1]).type not in _LOADS:
            return True
    return False
