"""Replacement of feature columns' variables by tables.

TensorFlow creates a variable with 0 rows, and ascpipe creates the table. Heads, savers and optimizers find the variable
by its name, scope and collections. The variable uses no memory (ADR 50).
"""
from typing import Any, Iterator, Optional

import tensorflow as tf
from tensorflow.python.feature_column import feature_column_v2 as columns_v2

from ascpipe.checkpoint.contents import ColumnVariable
from ascpipe.errors import ColumnError
from ascpipe.tf import internals, patches
from ascpipe.tf.clean_up import interruptible
from ascpipe.tf.feature_column.columns import requires_table, sizes_given
from ascpipe.tf.graph.column_names import table_name
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIn, StandIns
from ascpipe.tf.program.create_table import create_table
from ascpipe.tf.program.row_initializers import is_initializer
from ascpipe.tf.running.column_choice import Columns, TableSizes
from ascpipe.tf.running.process import Process

#: A column with more buckets needs an explicit table size.
MAX_BUCKETS_WITHOUT_SIZE = 10 ** 8

EMBEDDINGS = "embedding_weights"
WEIGHTS = "weights"


@patches.CREATE_VARIABLE.by
def _create_variable(self: Any, feature_column: Any, name: str, shape: Any, *args: Any, **kwargs: Any) -> Any:
    if name not in (EMBEDDINGS, WEIGHTS) or not _is_categorical(feature_column, name):
        return patches.CREATE_VARIABLE.plain(self, feature_column, name, shape, *args, **kwargs)
    scope = tf.compat.v1.get_variable_scope()
    plan = _Plan(feature_column, name, int(shape[0]), int(shape[1]), kwargs.get("initializer"))
    if not plan.has_table("{}/{}".format(scope.name, name)):
        return patches.CREATE_VARIABLE.plain(self, feature_column, name, shape, *args, **kwargs)
    partitioner = scope.partitioner
    scope.set_partitioner(None)
    try:
        kwargs["initializer"] = tf.compat.v1.zeros_initializer()
        variable = patches.CREATE_VARIABLE.plain(self, feature_column, name, (0, plan.dim), *args, **kwargs)
    finally:
        scope.set_partitioner(partitioner)
    return plan.stand_in(variable)


@patches.CREATE_LAYER_VARIABLE.by
def _create_layer_variable(self: Any, feature_column: Any, name: str, shape: Any, *args: Any, **kwargs: Any) -> Any:
    """Record that the variable of a large column is not replaced, because a layer of TensorFlow 2 creates the variable.
    """
    if name == EMBEDDINGS:
        plan = _Plan(feature_column, name, int(shape[0]), int(shape[1]), kwargs.get("initializer"))
        plan.leave("{}/{}/{}".format(self._layer.name, feature_column.name, name))
    return patches.CREATE_LAYER_VARIABLE.plain(self, feature_column, name, shape, *args, **kwargs)


@patches.EMBEDDING_COLUMN.by
def _embedding_column(self: Any, sparse_tensors: Any, weight_collections: Any, trainable: Any) -> Any:
    plan = _Plan(self, EMBEDDINGS, internals.buckets_of(self.categorical_column), self.dimension, self.initializer)
    with plan.making():
        return patches.EMBEDDING_COLUMN.plain(self, sparse_tensors, weight_collections, trainable)


@patches.SHARED_COLUMN.by
def _shared_column(self: Any, *args: Any, **kwargs: Any) -> Any:
    plan = _Plan(self, EMBEDDINGS, internals.buckets_of(self.categorical_column), self.dimension, self.initializer)
    graph = tf.compat.v1.get_default_graph()
    made = graph.get_collection(self.shared_embedding_collection_name)
    state = GraphState.known(graph)
    if not made or state is None or made[0].op.name not in StandIns.of(state):
        with plan.making():
            return patches.SHARED_COLUMN.plain(self, *args, **kwargs)
    # TensorFlow compares the full shape with the shape of the existing variable, which has 0 rows.
    with internals.with_shape(made[0], (plan.buckets, plan.dim)):
        return patches.SHARED_COLUMN.plain(self, *args, **kwargs)


def _shared_weights(self: Any) -> Any:
    name, buckets, initializer = internals.fields_of_shared_embeddings(self)
    with _Plan(self, name, buckets, self.dimension, initializer).making():
        return patches.SHARED_WEIGHTS.plain.fget(self)


patches.SHARED_WEIGHTS.by(property(_shared_weights))


@patches.LINEAR_COLUMN.by
def _linear_column(self: Any, inputs: Any) -> Any:
    column, units = internals.fields_of_linear_column(self)
    if not isinstance(column, (internals.OldCategoricalColumn, columns_v2.CategoricalColumn)):
        return patches.LINEAR_COLUMN.plain(self, inputs)
    plan = _Plan(column, WEIGHTS, internals.buckets_of(column), units, None)
    if not plan.is_requested():
        return patches.LINEAR_COLUMN.plain(self, inputs)
    with internals.custom_getter_of(self, plan.getter):
        return patches.LINEAR_COLUMN.plain(self, inputs)


@patches.FRACTION_OF_ZERO.by
def _fraction_of_zero(variables: Any) -> tf.Tensor:
    """Return the fraction of zeros in variables, for a summary.

    Variables that tables replace are ignored. Return NaN if there are no other variables.
    """
    state = GraphState.known(tf.compat.v1.get_default_graph())
    wanted = tf.nest.flatten(variables)
    counted = [each for each in wanted if state is None or each.op.name not in StandIns.of(state)]
    if len(counted) == len(wanted):
        return patches.FRACTION_OF_ZERO.plain(variables)
    return patches.FRACTION_OF_ZERO.plain(counted) if counted else tf.constant(float("nan"))


def _is_categorical(column: Any, name: str) -> bool:
    # Weights of dense columns have the same name as weights of categorical columns.
    return name == EMBEDDINGS or isinstance(column, columns_v2.CategoricalColumn)


class _Plan:
    """Object that decides whether a table replaces one variable of a column, and that creates the table.

    Args:
        column: the column, or the creator of shared embeddings.
        name: name of the variable without scopes.
        buckets: number of rows.
        dim: length of a row.
        initializer: initializer of the rows. None means zeros.
    """

    def __init__(self, column: Any, name: str, buckets: int, dim: int, initializer: Any) -> None:
        self.column = column
        self.name = name
        self.buckets = buckets
        self.dim = dim
        self.initializer = initializer or tf.compat.v1.zeros_initializer()
        self._sizes: Optional[TableSizes] = None

    def is_requested(self) -> bool:
        """Return True if the program requests a table for this column, or called ``use_for_feature_columns``."""
        return sizes_given(self.column, self.name) is not None or (
            Process.is_initialised() and Columns.of(Process.current()).choice is not None)

    def has_table(self, variable_name: str) -> bool:
        """Return True if a table replaces the variable. The decision is recorded in ``Columns.told``.

        Raises:
            ColumnError: a table was requested, but the column cannot have one.
        """
        self._sizes = sizes_given(self.column, self.name)
        if not Process.is_initialised() and not requires_table(self.column):
            return False  # after shutdown, the column may be equal to a column of an earlier call of ``linear_weights``
        columns = Columns.of(Process.current())
        choice = columns.choice
        if self._sizes is None and choice is None:
            return False
        reason = self._refusal_reason()
        if self._sizes is not None and reason is not None:
            raise ColumnError(variable_name, reason)
        if self._sizes is None and choice is not None:
            if self.buckets < choice.min_buckets:
                reason = "{} buckets, below {}".format(self.buckets, choice.min_buckets)
            self._sizes = choice.sizes._replace(pretrained=choice.pretrained.get(variable_name))
            if reason is not None and self._sizes.pretrained is not None:
                raise ColumnError(variable_name, "pretrained has rows for it, but it has no table: {}".format(reason))
        if reason is None and tf.distribute.has_strategy():
            raise ColumnError(variable_name, "tables cannot be variables of tf.distribute. Remove train_distribute "
                                             "and eval_distribute from RunConfig; to train tables with several "
                                             "processes, use `ascpipe run --ranks`. To keep this column in "
                                             "TensorFlow, raise min_buckets")
        columns.told.setdefault(variable_name, reason or "")
        return reason is None

    def leave(self, variable_name: str) -> None:
        """If the program requests tables, record that the variable of a layer of TensorFlow 2 is not replaced."""
        columns = Columns.of(Process.current()) if Process.is_initialised() else None
        if columns is not None and columns.choice is not None and self.buckets >= columns.choice.min_buckets:
            columns.told.setdefault(variable_name, "its layer is a layer of TensorFlow 2; use "
                                                   "tf.compat.v1.keras.layers.DenseFeatures")

    @interruptible
    def making(self) -> Iterator[None]:
        """Context manager that sets ``getter`` as the custom getter of ``get_variable`` if the program requests tables.
        """
        if not self.is_requested():
            yield
            return
        scope = tf.compat.v1.get_variable_scope()
        with tf.compat.v1.variable_scope(scope, custom_getter=self.getter, auxiliary_name_scope=False):
            yield

    def getter(self, getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Create a variable, as the custom getter of a variable scope. If a table replaces the variable, create the
        variable with 0 rows.
        """
        if name.rpartition("/")[2] != self.name or not self.has_table(name):
            return getter(name, *args, **kwargs)
        kwargs.update(shape=(0, self.dim), partitioner=None, initializer=tf.compat.v1.zeros_initializer())
        return self.stand_in(getter(name, *args, **kwargs))

    def stand_in(self, variable: Any) -> Any:
        """Create the table that replaces a variable, once per graph. Return the variable."""
        stand_ins = StandIns.of(GraphState.of(variable.graph))
        name = variable.op.name
        if name not in stand_ins:
            sizes = self._sizes or TableSizes()
            rows = self._device_rows(name, sizes)
            # DistributedOptimizer averages the gradients of variables over ranks.
            table = create_table(tf.int64, self.dim, table_name(name), self.initializer, device_vocabulary_size=rows,
                                 host_vocabulary_size=sizes.host if rows < self.buckets else 0,
                                 all2all_gradients_op="sum_gradients_and_div_by_ranksize")
            table.column = ColumnVariable(name, self.buckets)
            if sizes.pretrained is not None:
                GraphState.of(variable.graph).note_pretrained(table.table_name, sizes.pretrained)
            stand_ins[name] = StandIn(variable, table, bool(variable.trainable))
        return variable

    def _refusal_reason(self) -> Optional[str]:
        if getattr(self.column, "ckpt_to_load_from", None) is not None:
            return ("its rows are loaded from ckpt_to_load_from; a table is loaded by warm_start_from or "
                    "asc.warm_start()")
        is_constant = isinstance(self.initializer, internals.initializer_classes("Constant"))
        if is_constant and tf.TensorShape([self.buckets, self.dim]) == tf.TensorShape(
                getattr(self.initializer.value, "shape", None)):
            return "its initializer gives each bucket its own row"
        if not is_initializer(self.initializer):
            return "its initializer is {!r}, not an instance of an initializer class".format(self.initializer)
        return None

    def _device_rows(self, variable_name: str, sizes: TableSizes) -> int:
        if sizes.device is not None:
            return min(sizes.device, self.buckets)
        if self.buckets > MAX_BUCKETS_WITHOUT_SIZE:
            raise ColumnError(variable_name, "it has {} buckets and no size. Pass device_vocabulary_size, the number "
                                             "of rows that its table holds on the device".format(self.buckets))
        return self.buckets
