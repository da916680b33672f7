"""Base classes and functions of the optimizers for tables."""
import collections
from typing import Any, Dict, Iterable, List, Optional, Tuple

import tensorflow as tf
from tensorflow.python.ops import variable_scope

from ascpipe.errors import CallOrderError, OptimizerError
from ascpipe.tf import internals
from ascpipe.tf.graph.expansion import lookup_of
from ascpipe.tf.graph.gradient_state import GradientState
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import HomeSlots
from ascpipe.tf.graph.rewiring import origin_of
from ascpipe.tf.graph.row_numbers import sums_each_row
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Float, Rule, Text

_NAME = Text(1, 200)


class LearningRate(Rule):
    """Rule for a float in [0, 10], a tensor or a variable.

    An optimizer reads tensors and variables when gradients are applied.
    """

    def _check(self, name: str, value: Any) -> None:
        if not isinstance(value, (tf.Tensor, tf.Variable)):
            Float(0.0, 10.0).check(name, value)


class CustomizedOptimizer(tf.compat.v1.train.Optimizer):
    """Base class of the optimizers for tables. A subclass also inherits from an optimizer class of TensorFlow.

    The gradient of a table's lookups contains each row only once, so duplicates are summed only in other gradients.
    ``_apply_sparse`` creates one op that reads and writes each row once. The results of this op do not depend on the
    position of a row, on dim, or on the number of threads.

    Programs may subclass an optimizer and override ``_apply_sparse_duplicate_indices(grad, var)``. In this method,
    ``tf.gather(var, grad.indices)`` returns the rows, and ``tf.scatter_nd_add(var, grad.indices[:, None], delta)``
    changes the rows. The subclass calls ``_get_name`` and passes ``unique_name`` to the other base class::

        class Decayed(tf.compat.v1.train.GradientDescentOptimizer, CustomizedOptimizer):
            def __init__(self, learning_rate, name="Decayed"):
                self._get_name(name=name)
                super().__init__(learning_rate, name=self.unique_name)

    State is stored in slot variables of the table. Rows of slot variables move with the rows of the table.

    Attributes:
        unique_name: ``<name>_<count>``. ``_get_name`` sets it.
        _learning_rate: a number, a tensor or a callable. Programs may replace it, for example for loss scaling. It is
            read when gradients are applied.
    """

    unique_name: str
    _learning_rate: Any

    def _get_name(self, name: str = "CustomizedOptimizer") -> str:
        """Set and return ``unique_name``. The count is the number of earlier optimizers with the name ``name`` in the
        graph.

        Raises:
            ValueError: the name is empty or longer than 200 characters.
            EnvironmentError: ``init`` was not called.
        """
        _NAME.check("name", name)
        self.unique_name = unique_name(name)
        return self.unique_name

    @property
    def _lr(self) -> Any:
        """Alias of ``_learning_rate``. TensorFlow's Adam uses this name."""
        return self._learning_rate

    @_lr.setter
    def _lr(self, value: Any) -> None:
        self._learning_rate = value

    def _apply_sparse_duplicate_indices(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        if has_unique_indices(grad):
            return self._apply_sparse(grad, var)
        return internals.apply_repeated_as(tf.compat.v1.train.Optimizer, self, grad, var)

    def _create_slots(self, var_list: List[tf.Variable]) -> None:
        others = [var for var in var_list if not is_table_variable(var)]
        if others:
            super()._create_slots(others)
        # Scopes, reuse, partitioners and custom getters of the program are not used for slots of tables.
        with variable_scope.variable_scope(variable_scope.VariableScope(reuse=False), auxiliary_name_scope=False):
            for table in filter(is_table_variable, var_list):
                self._create_table_slots(table)

    def _create_table_slots(self, table: tf.Variable) -> None:
        """Create the slot variables of one table with ``_table_slot``. Optimizers with slots override this method."""

    def _table_slot(self, table: tf.Variable, initial: float, slot_name: str, op_name: str) -> Any:
        """Return a slot variable with the width of the embedding.

        All rows are initialized with the value ``initial``, including rows of new keys.
        """
        return self._slot_of_width(table, table.shape[1].value, initial, slot_name, op_name)

    def _slot_of_width(self, table: tf.Variable, width: int, initial: float, slot_name: str, op_name: str) -> Any:
        if self.get_slot(table, slot_name) is None:
            _require_open(self, table, slot_name)
        with tf.control_dependencies(None):
            # Unlike a constant, Fill does not store its values in the graph, and all its values are known to be equal.
            value = tf.fill([table.shape[0].value, width], tf.constant(initial, tf.float32))
        slot = self._get_or_make_slot(table, value, slot_name, op_name)
        table_of(table).record_slot(slot)
        return slot


class OptimizerByAddress(CustomizedOptimizer):
    """Base class of the optimizers for expansion tables. Optimizers for expansion tables identify rows by handles.

    A subclass lists this class before the optimizer class for tables without dynamic expansion. Optimizer slots are
    stored in the home row after the embedding. The slots have the same names and initial values as the slot variables
    of the other class.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._handles: Dict[str, tf.Tensor] = {}  # name of the table's variable -> handles

    def apply_gradients(self, grads_and_vars: Iterable[Tuple[Any, tf.Tensor]],
                        global_step: Optional[tf.Variable] = None, name: Optional[str] = None) -> tf.Operation:
        """Return an op that updates the rows of a batch.

        Args:
            grads_and_vars: pairs (gradient, handles) or (gradient, variable). The collection
                ``ASCEND_SPARSE_LOOKUP_ID_OFFSET`` contains the handles of tables. The gradient of a table must be
                computed with respect to the table's local rows. Pairs whose gradient is None are ignored.
            global_step: variable that is incremented afterwards.
            name: name of the op.

        Raises:
            ValueError: a tensor does not contain handles, a table occurs twice, a table is updated by another
                optimizer, or all gradients are None.
            RuntimeError: the pipeline has started.
        """
        pairs: List[Tuple[Any, tf.Variable]] = []
        state = GraphState.of(internals.outermost(tf.compat.v1.get_default_graph()))
        for gradient, handles in grads_and_vars:
            if isinstance(handles, tf.Variable) and not is_table_variable(handles):
                stand_in = StandIns.of(state).of_variable(handles)
                if stand_in is None or gradient is None:
                    pairs.append((gradient, handles))
                    continue
                handles = state.requests.local[stand_in.table.table_name][1]
            table = lookup_of(handles).table
            if any(variable is table.variable for _, variable in pairs):
                raise OptimizerError("Optimizer {!r} got two gradients of table {!r}. Pass one pair for each table: "
                                     "the local rows of all its lookups are one tensor".format(
                                         self._name, table.table_name))
            self._handles[table.variable.op.name] = handles
            pairs.append((gradient, table.variable))
        # The variable represents the table. It has no rows.
        return super().apply_gradients(pairs, global_step, name)

    def share_handles(self, table: tf.Variable, handles: tf.Tensor) -> HomeSlots:
        """Create and return the slots of a table whose handles the program has passed to another optimizer."""
        self._handles[table.op.name] = handles
        self._create_slots([table])
        return self._own(table)

    def _apply_by_address(self, handles: tf.Tensor, gradient: tf.Tensor) -> tf.Operation:
        """Return the op that updates rows with a gradient, float[n, dim].

        ``handles`` contains the handles of the rows, int64[n] without duplicates.
        """
        raise NotImplementedError

    def _create_slots(self, var_list: List[tf.Variable]) -> None:
        for table in filter(is_table_variable, var_list):
            self._own(table)
        super()._create_slots(var_list)

    def _table_slot(self, table: tf.Variable, initial: float, slot_name: str, op_name: str) -> None:
        self._own(table).initial[slot_name] = initial

    def _own(self, table: tf.Variable) -> HomeSlots:
        """Return the optimizer slots of a table. The slots belong to the first optimizer that calls this method."""
        lookup = lookup_of(self._handles[table.op.name])
        name = lookup.table.table_name
        slots = GradientState.of(GraphState.of(table.graph)).home_slots
        if name not in slots:
            if is_started(table.graph):
                raise CallOrderError("Optimizer {!r} was applied to table {!r} after the pipeline had started, so the "
                                     "rows have no space for its state. Apply gradients before the first run of a "
                                     "session".format(self._name, name))
            slots[name] = HomeSlots(self)
        if slots[name].owner is not self:
            raise OptimizerError("Table {!r} cannot be updated by optimizer {!r}, because optimizer {!r} already "
                                 "updates it and keeps its state in the rows. Use one optimizer for each table".format(
                                     name, self._name, slots[name].owner.get_name()))
        return slots[name]

    def _apply_sparse_duplicate_indices(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        # This method first sums the gradients of repeated rows. TensorFlow's gradient descent would apply them
        # separately.
        return CustomizedOptimizer._apply_sparse_duplicate_indices(self, grad, var)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
        if not is_table_variable(var):
            return super()._apply_dense(grad, var)
        places = lookup_of(self._handles[var.op.name]).places
        trained = tf.squeeze(tf.where(tf.equal(places, tf.range(tf.size(places)))), axis=1)
        return self._apply_sparse(tf.IndexedSlices(tf.gather(grad, trained), trained), var)

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        if not is_table_variable(var):
            return super()._apply_sparse(grad, var)
        return self._apply_by_address(tf.gather(self._handles[var.op.name], grad.indices), grad.values)


def scalar(value: Any) -> tf.Tensor:
    """Return a hyper-parameter as a float32 scalar, as required by the ops that update rows."""
    number = tf.cast(value, tf.float32)
    return number if number.shape.rank == 0 else tf.reshape(number, [])


def unique_name(name: str) -> str:
    """Return ``<name>_<count>``. The count is the number of earlier optimizers with the name ``name`` in the graph."""
    counts: Dict[str, int] = internals.stored_on(
        GraphState.of(tf.compat.v1.get_default_graph()), "optimizer_counts", collections.Counter)
    numbered = "{}_{}".format(name, counts[name])
    counts[name] += 1
    return numbered


def require_expansion(function: str, instead: str) -> None:
    """Raise ``OptimizerError`` if tables do not expand, because rows then have no handles."""
    if not Process.current().configuration.use_dynamic_expansion:
        raise OptimizerError("{} is not compatible with this program, because it requires dynamic expansion mode, "
                             "asc.init(use_dynamic_expansion=True). Use {}".format(function, instead))


def refuse_expansion(function: str, instead: str) -> None:
    """Raise ``OptimizerError`` if tables expand, because the rows of expansion tables are not in variables."""
    if Process.current().configuration.use_dynamic_expansion:
        raise OptimizerError("{} is not compatible with dynamic expansion mode, asc.init(use_dynamic_expansion=True), "
                             "whose tables have no variable. Use {}".format(function, instead))


def is_table_variable(variable: Any) -> bool:
    """Return whether a variable contains the device rows of a table."""
    initial = getattr(variable, "initial_value", None)
    return isinstance(initial, tf.Tensor) and initial.op.type == "AscTableInit"


def table_of(variable: tf.Variable) -> Table:
    """Return the table whose device rows a variable contains. Raise ``OptimizerError`` for other variables."""
    for table in GraphState.of(variable.graph).tables.values():
        if table.variable is variable:
            return table
    raise OptimizerError("Variable {!r} is not the variable of a table of its graph".format(variable.op.name))


def note_slots(optimizer: tf.compat.v1.train.Optimizer, variables: Iterable[Any]) -> None:
    """Record the slot variables that an optimizer has created for tables.

    Args:
        optimizer: an optimizer that has applied gradients.
        variables: variables that the optimizer updates. Dense variables are ignored.

    Raises:
        RuntimeError: there is a new slot variable, and the pipeline has started.
    """
    for variable in filter(is_table_variable, variables):
        table = table_of(variable)
        slots = [optimizer.get_slot(variable, name) for name in optimizer.get_slot_names()]
        for slot in slots:
            if slot is None or any(slot is known for known in table.optimizer_variables):
                continue
            _require_open(optimizer, variable, slot.op.name)
            table.record_slot(slot)


def _require_open(optimizer: tf.compat.v1.train.Optimizer, table: tf.Variable, slot: str) -> None:
    """Raise ``CallOrderError`` if the pipeline has started, because slot variables cannot be added after the start."""
    if is_started(table.graph):
        raise CallOrderError("Optimizer {!r} was applied to table {!r} after the pipeline had started, so its slot "
                             "variable {!r} cannot be added. Apply gradients before the first run of a session".format(
                                 optimizer.get_name(), table.op.name, slot))


def has_unique_indices(grad: tf.IndexedSlices) -> bool:
    """Return whether a gradient contains each row at most once.

    The summed gradient of a table's lookups does, even if the program changed its values.
    """
    return sums_each_row(origin_of(grad.indices))


def is_started(graph: tf.Graph) -> bool:
    """Return whether the pipeline of a graph has started. The width of rows cannot be changed after the start of the
    pipeline.
    """
    state = GraphState.known(graph)
    return state is not None and state.started
