"""Base class and helpers of the optimizers for tables."""
import contextlib
from typing import Any, Iterator, List

import tensorflow as tf
from tensorflow.python.ops import variable_scope

from ascpipe.tf import internals
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.rewiring import origin_of
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Float, Rule, Text

_NAME = Text(1, 200)


class LearningRate(Rule):
    """A float in [0, 10], or a tensor or variable, which is read when gradients are applied."""

    def _check(self, name: str, value: Any) -> None:
        if not isinstance(value, (tf.Tensor, tf.Variable)):
            Float(0.0, 10.0).check(name, value)


class CustomizedOptimizer(tf.compat.v1.train.Optimizer):
    """Base class of the optimizers for tables, used together with an optimizer class of TensorFlow.

    The gradient of a table's lookups has each row once, so TensorFlow's summing of duplicates is skipped for
    it; other gradients are summed as usual.  One op of ours reads and writes each row once, in ``_apply_sparse``; it
    gives the same bits at any place, dim and number of threads.  Programs may subclass an optimizer and override
    ``_apply_sparse_duplicate_indices(grad, var)``: ``tf.gather(var, grad.indices)`` are the rows, and
    ``tf.scatter_nd_add(var, grad.indices[:, None], delta)`` changes them. With its name, from ``_get_name``, it then
    calls the other class::

        class Decayed(tf.compat.v1.train.GradientDescentOptimizer, CustomizedOptimizer):
            def __init__(self, learning_rate, name="Decayed"):
                self._get_name(name=name)
                super().__init__(learning_rate, name=self.unique_name)

    State lives in slot variables of the table, so that it moves with the rows.

    Attributes:
        unique_name: ``<name>_<count>``, once ``_get_name`` was called.
        _learning_rate: a number, a tensor or a callable. Programs may replace it, for loss scaling; it is read when
            gradients are applied.
    """

    unique_name: str
    _learning_rate: Any

    def _get_name(self, name: str = "CustomizedOptimizer") -> str:
        """``unique_name``, which it sets: the count is that of the optimizers of this name in the graph before.

        Raises:
            ValueError: a name that has not 1 to 200 characters.
            EnvironmentError: ``init`` was not called.
        """
        _NAME.check("name", name)
        self.unique_name = unique_name(name)
        return self.unique_name

    @property
    def _lr(self) -> Any:
        """Adam's word for ``_learning_rate``."""
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
        for table in var_list:
            if is_table_variable(table):
                with _root_variable_scope():
                    self._create_table_slots(table)

    def _create_table_slots(self, table: tf.Variable) -> None:
        """Make the slot variables of one table with ``_table_slot``; an optimizer with state overrides this."""

    def _table_slot(self, table: tf.Variable, initial: float, slot_name: str, op_name: str) -> Any:
        """A slot variable whose rows begin with one value, that of the rows of new keys, too."""
        if self.get_slot(table, slot_name) is None and is_started(table.graph):
            raise RuntimeError("optimizer {!r}: the pipeline was started, so table {!r} cannot get the slot variable "
                               "{!r} any more; apply gradients before the first run of a session".format(
                                   self._name, table.op.name, slot_name))
        with tf.control_dependencies(None):
            # Fill rather than a constant: it takes no memory in the graph, and says that all values are equal.
            value = tf.fill(table.shape.as_list(), tf.constant(initial, tf.float32))
        return self._get_or_make_slot(table, value, slot_name, op_name)


def scalar(value: Any) -> tf.Tensor:
    """A number of a formula, as the ops that update rows take it: float32 scalar."""
    number = tf.cast(value, tf.float32)
    return number if number.shape.rank == 0 else tf.reshape(number, [])


def unique_name(name: str) -> str:
    """``<name>_<count>``: the count is that of the optimizers of this name in the graph before."""
    counts = GraphState.of(tf.compat.v1.get_default_graph()).optimizer_counts
    numbered = "{}_{}".format(name, counts[name])
    counts[name] += 1
    return numbered


def require_expansion(function: str, instead: str) -> None:
    """Raise ``ValueError`` where tables do not expand, so that rows have no handles."""
    if not Process.current().configuration.use_dynamic_expansion:
        raise ValueError("{} is not compatible with this program: it needs dynamic expansion mode, "
                         "init(use_dynamic_expansion=True); use {}".format(function, instead))


def refuse_expansion(function: str, instead: str) -> None:
    """Raise ``ValueError`` where tables expand, so that they have no variable."""
    if Process.current().configuration.use_dynamic_expansion:
        raise ValueError("{} is not compatible with dynamic expansion mode, init(use_dynamic_expansion=True), whose "
                         "tables have no variable; use {}".format(function, instead))


def is_table_variable(variable: Any) -> bool:
    """Whether a variable holds the device rows of a table."""
    initial = getattr(variable, "initial_value", None)
    return isinstance(initial, tf.Tensor) and initial.op.type == "AscTableInit"


def has_unique_indices(grad: tf.IndexedSlices) -> bool:
    """Whether a gradient is that of a table's lookups, gated or with changed values, but of the same rows."""
    return origin_of(grad.indices).type in ("AscLookupGrad", "AscLookupConcatGrad")


@contextlib.contextmanager
def _root_variable_scope() -> Iterator[None]:
    """Make variables where no scope, reuse, partitioner or custom getter of the program applies."""
    scope = variable_scope.VariableScope(reuse=False)
    with variable_scope.variable_scope(scope, auxiliary_name_scope=False):
        yield


def is_started(graph: tf.Graph) -> bool:
    """Whether the pipeline of a graph was started: rows of its tables have their final width."""
    state = GraphState.known(graph)
    return state is not None and state.started
