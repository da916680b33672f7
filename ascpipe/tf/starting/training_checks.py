"""Checks that a graph trains its tables, and that nothing else happens to their rows, before the first update."""
import tensorflow as tf

from ascpipe.errors import ColumnError, TableUseError
from ascpipe.layout.words import TRAIN
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.table_uses import first_wrong_use

_SHARED_BY_NAME = ("; a tower that evaluates has the table of the one that trains where their variables have one name: "
                   "variable_scope(NAME, reuse=tf.compat.v1.AUTO_REUSE)")


def require_safe_training(state: GraphState) -> None:
    """Check how the ops of a graph train its tables, and use their rows.

    Raises:
        TableUseError: an op uses rows of a table, their numbers or their gradient beyond one step.
        ColumnError, RuntimeError: a table is looked up for training and not trained.
    """
    _require_uses_within_steps(state)
    require_trained(state)


def require_trained(state: GraphState) -> None:
    """Raise ``RuntimeError`` or ``ColumnError`` where a complete graph takes batches of a table to train it and never
    does."""
    for (name, channel), lookup in state.lookups.items():
        if channel == TRAIN and not lookup.with_gradient:
            raise RuntimeError("table {!r} cannot be trained: all its training lookups have is_grad=False".format(name))
    for variable, stand_in in state.stand_ins.items():
        name = stand_in.table.table_name
        # A lookup whose gradient nothing asked reads only; beside an optimizer that is a mistake of the program.
        reads_beside = state.mode is None and stand_in.trains and stand_in.variable.graph.get_collection(
            tf.compat.v1.GraphKeys.TRAIN_OP)
        trains = (name, TRAIN) in state.lookups
        is_known = name in state.updated or name in state.unreached
        if (trains or reads_beside) and not is_known:
            raise ColumnError(variable, "its table {!r} is looked up {}, and no optimizer updates it: gradients of "
                              "tables come from compute_gradients() and minimize() of optimizers of "
                              "tf.compat.v1.train, of all trainable variables or of a var_list that has this one, and "
                              "not from tf.gradients(). What shall stay as it began is a column with "
                              "trainable=False{}".format(name, *(("in training", "") if trains else (
                                  "beside an optimizer", _SHARED_BY_NAME))))


def _require_uses_within_steps(state: GraphState) -> None:
    """Raise ``TableUseError`` where an op uses rows of a table, their numbers or their gradient beyond one step."""
    for table in state.tables.values():
        wrong = first_wrong_use(state, table)
        if wrong is not None:
            raise TableUseError(state.name_of(table), wrong.sentence() + ". Nothing was trained")
