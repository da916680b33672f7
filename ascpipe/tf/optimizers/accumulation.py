"""Gradient accumulation, which sums gradients over several batches and applies the sums once.

Sums are stored in optimizer slots. The slots of a table move together with its rows, so the sum of a key is kept while
its row is not on the device. The last batch of a cycle needs the rows of all keys of the cycle. The pipeline moves
these rows to the device (``tfops/src/core/cycle_ids.h``).
"""
import itertools
from typing import Any, List, Optional, Set, Tuple

import tensorflow as tf

from ascpipe.errors import NotBuiltYetError, OptimizerError, TableUseError
from ascpipe.layout.words import SLOT_FROZEN, TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.expansion import lookup_of
from ascpipe.tf.graph.gradient_state import Accumulation, GradientState
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import GRADIENT_COUNT, GRADIENT_SUM
from ascpipe.tf.graph.row_numbers import SUM, origins_of
from ascpipe.tf.graph.table_lookup import TableLookup
from ascpipe.tf.optimizers.base import CustomizedOptimizer, OptimizerByAddress, is_table_variable, table_of
from ascpipe.tf.running import native
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Integer, Rule, boolean, checked, wrong_type

_OURS = "ascpipe/accumulation/"  # scope of ops that are not checked by ``table_uses.py``


class _IsOptimizer(Rule):
    def _check(self, name: str, value: Any) -> None:
        if not isinstance(value, tf.compat.v1.train.Optimizer):
            raise wrong_type(name, value, "a tf.compat.v1.train.Optimizer")


@checked(optimizer=_IsOptimizer(), k=Integer(1, 1000), mean=boolean())
def accumulate(optimizer: tf.compat.v1.train.Optimizer, k: int, *, mean: bool = False) -> tf.compat.v1.train.Optimizer:
    """Return an optimizer that sums the gradients of ``k`` batches, and applies the sums once every ``k`` batches.

    A cycle has ``k`` batches. Rows and variables do not change until the last batch of a cycle. The last batch applies
    the sums once to each variable and to each row that had a gradient in the cycle. The result is the same as in a
    TensorFlow program that adds gradients to variables for ``k`` steps and then applies the sums. Sparse gradients
    remain sparse.

    Batches are numbered from 1. Each batch whose number is a multiple of ``k`` is the last batch of a cycle. Batches
    that are fetched but not trained are counted. Batches that are read ahead and dropped with their iterator are not
    counted. If the last batch of a cycle is not trained, the sums remain. The sum of a key is then applied at the end
    of the next cycle that contains the key. ``global_step`` is the number of batches, not of cycles.

    ``device_vocabulary_size`` must be at least the number of distinct keys of ``k`` batches.

    Args:
        optimizer: an optimizer of ``ascpipe.tf.optimizers`` or of TensorFlow, or an ``ascpipe.tf.Optimizer``.
        k: number of batches in a cycle, 1 to 1000. If ``k`` is 1, ``optimizer`` is returned unchanged.
        mean: True to divide the sum by ``k`` before it is applied.

    Returns:
        A ``tf.compat.v1.train.Optimizer`` for the same variables and tables as ``optimizer``.

    Raises:
        ValueError: an argument has the wrong type or is out of range. ``apply_gradients`` raises it if gradients of a
            variable are applied twice.
        TableUseError: E253. ``apply_gradients`` raises it if gradients of a table are applied twice.
        NotBuiltYetError: E600. The program uses static shapes (``init(use_dynamic=False)``) or several ranks, or tables
            grow and ``optimizer`` is not an optimizer of ``ascpipe.tf.optimizers``.
        EnvironmentError: ``init`` was not called.
    """
    configuration = Process.current().configuration
    if k == 1:
        return optimizer
    grows = configuration.use_dynamic_expansion
    for is_so, what, instead in (
            (grows and not isinstance(optimizer, OptimizerByAddress),
             "{} and tables that grow".format(type(optimizer).__name__), "use LazyAdam, Adagrad or GradientDescent of "
             "asc.optimizers"),
            (configuration.use_static, "asc.init(use_dynamic=False)", "leave use_dynamic out"),
            (configuration.rank_size > 1, "{} ranks".format(configuration.rank_size),
             "use larger batches, or train with one rank")):
        if is_so:
            raise NotBuiltYetError("asc.optimizers.accumulate() with {}".format(what), instead)
    kind = _AccumulatedByAddress if grows else _Accumulated
    return kind(optimizer, k, 1 / k if mean else 1.0)


class _Accumulated(CustomizedOptimizer):
    """Optimizer that adds gradients to slots. At the end of a cycle, another optimizer applies the sums.

    Args:
        optimizer: optimizer that applies the sums.
        steps: number of batches in a cycle.
        factor: factor of the sums.
    """

    def __init__(self, optimizer: tf.compat.v1.train.Optimizer, steps: int, factor: float) -> None:
        super().__init__(use_locking=False, name="accumulate_" + optimizer.get_name())
        self._optimizer = optimizer
        self._steps = steps
        self._factor = factor
        # State of one call of apply_gradients. _batches: variable that counts batches since the sums were applied.
        # _sums: variables, and whether their gradients are sparse. _by_rows: id() of each variable with a sparse
        # gradient.
        self._batches: Any = None
        self._sums: List[Tuple[Any, bool]] = []
        self._by_rows: Set[int] = set()

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> List[Tuple[Any, Any]]:
        """Compute gradients with the optimizer that applies the sums."""
        pairs: List[Tuple[Any, Any]] = self._optimizer.compute_gradients(loss, *args, **kwargs)
        return pairs

    def apply_gradients(self, grads_and_vars: Any, global_step: Optional[tf.Variable] = None,
                        name: Optional[str] = None) -> tf.Operation:
        """Return an op that adds gradients to the sums, and applies the sums in the last batch of a cycle."""
        pairs = list(grads_and_vars)
        self._sums = []
        self._by_rows = {id(variable) for gradient, variable in pairs if isinstance(gradient, tf.IndexedSlices)}
        return super().apply_gradients(pairs, global_step, name)

    def _create_slots(self, var_list: List[tf.Variable]) -> None:
        super()._create_slots([variable for variable in var_list if is_table_variable(variable)])
        for variable in var_list:
            if not is_table_variable(variable):
                if self.get_slot(variable, GRADIENT_SUM) is not None:
                    raise OptimizerError("Optimizer {!r} of accumulate() was applied twice to variable {!r}, but it "
                                         "keeps only one sum of gradients per variable. Minimize the sum of the "
                                         "losses, or use two optimizers".format(self._name, variable.op.name))
                self._zeros_slot(variable, GRADIENT_SUM, self._name)
                if id(variable) in self._by_rows:
                    self._get_or_make_slot(variable, tf.zeros([variable.shape[0].value, 1]), GRADIENT_COUNT, self._name)
        # Each call of apply_gradients creates a counter. The names of the counters are the same in all graphs of a
        # model.
        graph = tf.compat.v1.get_default_graph()
        names = ("batches_{}".format(number) if number else "batches" for number in itertools.count())
        name = next(name for name in names if self._get_non_slot_variable(name, graph=graph) is None)
        self._batches = self._create_non_slot_variable(tf.zeros([], tf.int64), name, var_list[0])

    def _create_table_slots(self, table: tf.Variable) -> None:
        self._note_table(table)
        self._table_slot(table, 0.0, GRADIENT_SUM, "{}/{}".format(self._name, GRADIENT_SUM))
        self._slot_of_width(table, 1, 0.0, GRADIENT_COUNT, "{}/{}".format(self._name, GRADIENT_COUNT))

    def _note_table(self, table: tf.Variable) -> None:
        name = table_of(table).table_name
        accumulated = GradientState.of(GraphState.of(table.graph)).accumulated
        if name in accumulated:
            raise TableUseError(name, "its gradients are accumulated twice, by {!r} and {!r}. Nothing was trained. "
                                "Minimize the sum of its losses with one optimizer".format(
                                    accumulated[name].optimizer.get_name(), self.get_name()))
        accumulated[name] = Accumulation(self, self._steps)

    def _prepare(self) -> None:
        """Do nothing. The optimizer that applies the sums prepares the hyper-parameters in ``apply_gradients``."""

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        self._sums.append((var, False))
        return tf.group(self.get_slot(var, GRADIENT_SUM).assign_add(grad))

    def _resource_apply_dense(self, grad: tf.Tensor, handle: tf.Variable) -> tf.Operation:
        return self._apply_dense(grad, handle)

    def _apply_sparse_duplicate_indices(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        for origin in origins_of(grad.indices):
            if origin.op.type == SUM:  # in a cycle's last batch, also slots for keys of earlier batches
                internals.set_flag(origin.op, "partial", value=True)
        self._sums.append((var, True))
        ones = tf.ones([tf.size(grad.indices), 1])
        return tf.group(_scattered(self.get_slot(var, GRADIENT_SUM), "add", grad.indices, grad.values),
                        _scattered(self.get_slot(var, GRADIENT_COUNT), "add", grad.indices, ones))

    def _resource_apply_sparse_duplicate_indices(self, grad: tf.Tensor, handle: tf.Variable,
                                                 indices: tf.Tensor) -> tf.Operation:
        return self._apply_sparse_duplicate_indices(tf.IndexedSlices(grad, indices), handle)

    def _finish(self, update_ops: List[tf.Operation], name_scope: str) -> tf.Operation:
        lookup = self._lookup([variable for variable, _ in self._sums])
        with tf.control_dependencies(update_ops):
            batches = self._batches.assign_add(1)
        with tf.control_dependencies([batches]):
            if lookup is None:
                is_end = tf.greater_equal(batches, self._steps)
            else:
                is_end = native.ops().asc_cycle_end(
                    ticket=lookup.ticket, batches=batches, table=lookup.table.shape.number, steps=self._steps)
        return tf.group(tf.cond(is_end, self._apply_sums, tf.no_op), name=name_scope)

    def _apply_sums(self) -> tf.Operation:
        sums = [(self._sum_of_rows(variable) if by_rows
                 else self._factor * self.get_slot(variable, GRADIENT_SUM).read_value(), variable)
                for variable, by_rows in self._sums]
        pairs = [(gradient, self._target(variable)) for gradient, variable in sums]
        # Read all sums before a sum is set to 0.
        with tf.control_dependencies([self._optimizer.apply_gradients(pairs)]):
            return tf.group(self._batches.assign(0), *(
                self._reset_sums(gradient, variable) for gradient, variable in sums))

    def _target(self, variable: tf.Variable) -> Any:
        return variable

    def _reset_sums(self, gradient: Any, variable: tf.Variable) -> tf.Operation:
        total = self.get_slot(variable, GRADIENT_SUM)
        if not isinstance(gradient, tf.IndexedSlices):
            return tf.group(total.assign(tf.zeros_like(gradient)))
        none = tf.zeros([tf.size(gradient.indices), 1])
        return tf.group(_scattered(total, "update", gradient.indices, tf.zeros_like(gradient.values)),
                        _scattered(self.get_slot(variable, GRADIENT_COUNT), "update", gradient.indices, none))

    def _sum_of_rows(self, variable: tf.Variable) -> tf.IndexedSlices:
        """For each row that had a gradient in the cycle, return the gradient sum multiplied by the factor."""
        total = self.get_slot(variable, GRADIENT_SUM)
        count = self.get_slot(variable, GRADIENT_COUNT)
        shape = tf.constant(variable.shape.as_list())
        if not is_table_variable(variable):
            rows = tf.squeeze(tf.where(count.read_value()[:, 0] > 0), axis=1)
            return tf.IndexedSlices(self._factor * _gathered(total, rows), rows, shape)
        table = table_of(variable)
        with tf.name_scope(_OURS):
            slots = GraphState.of(variable.graph).lookups[(table.table_name, TRAIN)].plan[0]
            has_row = tf.logical_and(slots >= 0, slots < SLOT_FROZEN)
            at = tf.compat.v2.where(has_row, slots, 0)
            had_gradient = tf.logical_and(has_row, _gathered(count, at)[:, 0] > 0)
            sums = native.ops().asc_lookup_grad(
                slots=slots, restore=[tf.compat.v2.where(had_gradient, tf.range(tf.size(slots)), -1)],
                grads=[self._factor * _gathered(total, at)], dim=table.emb_size, partial=True)
        return tf.IndexedSlices(sums.values, sums.indices, shape)

    def _lookup(self, variables: List[tf.Variable]) -> Optional[TableLookup]:
        """Return a training lookup of a table in ``variables``, or None if ``variables`` contains no table.

        Any table can be used, because it is checked at the start of the pipeline that all tables of an optimizer use
        the same batches. Before the start, each lookup of id tensors has a separate ticket.
        """
        state = GraphState.of(internals.outermost(tf.compat.v1.get_default_graph()))
        tables = [table_of(variable).table_name for variable in variables if is_table_variable(variable)]
        return next((lookup for (name, channel), lookup in state.lookups.items()
                     if channel == TRAIN and name in tables), None)


class _AccumulatedByAddress(OptimizerByAddress, _Accumulated):
    """Optimizer that accumulates the gradients of expansion tables.

    In a home row, the sum is stored after the state of the optimizer that applies it.
    """

    _optimizer: OptimizerByAddress

    def _create_slots(self, var_list: List[tf.Variable]) -> None:
        _Accumulated._create_slots(self, var_list)

    def _create_table_slots(self, table: tf.Variable) -> None:
        self._note_table(table)
        self._optimizer.share_handles(table, self._handles[table.op.name]).summed_by = self._name

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        if not is_table_variable(var):
            return _Accumulated._apply_dense(self, grad, var)
        lookup = lookup_of(self._handles[var.op.name])
        count = tf.size(lookup.places)
        found = tf.concat([tf.reshape(each, [-1]) for each in lookup.restore], axis=0)
        # The lookup also contains keys of earlier batches of the cycle that do not occur in this batch.
        occurs = tf.math.unsorted_segment_sum(tf.ones_like(found), found, count) > 0
        rows = tf.squeeze(tf.where(tf.logical_and(occurs, tf.equal(lookup.places, tf.range(count)))), axis=1)
        return self._apply_sparse_duplicate_indices(tf.IndexedSlices(tf.gather(grad, rows), rows), var)

    def _apply_sparse_duplicate_indices(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        if not is_table_variable(var):
            return _Accumulated._apply_sparse_duplicate_indices(self, grad, var)
        self._sums.append((var, True))
        with tf.name_scope(_OURS):
            return self._added(var, grad.indices, grad.values, 1.0)

    def _target(self, variable: tf.Variable) -> Any:
        return self._handles.get(variable.op.name, variable)

    def _reset_sums(self, gradient: Any, variable: tf.Variable) -> tf.Operation:
        if not is_table_variable(variable):
            return super()._reset_sums(gradient, variable)
        with tf.name_scope(_OURS):
            sums, count = self._read(variable)
            return self._added(variable, gradient.indices, -tf.gather(sums, gradient.indices),
                               -tf.gather(count, gradient.indices))

    def _sum_of_rows(self, variable: tf.Variable) -> tf.IndexedSlices:
        if not is_table_variable(variable):
            return super()._sum_of_rows(variable)
        places = lookup_of(self._handles[variable.op.name]).places
        sums, count = self._read(variable)
        which = tf.compat.v2.where(count[:, 0] > 0, tf.range(tf.size(places)), -1)
        found = native.ops().asc_lookup_grad(
            slots=places, restore=[which], grads=[self._factor * sums], dim=table_of(variable).emb_size, partial=True)
        return tf.IndexedSlices(found.values, found.indices)

    def _read(self, table: tf.Variable) -> Tuple[tf.Tensor, tf.Tensor]:
        """Return two values per row of the batch: the gradient sum, and the number of summed gradients.

        The sums are float[keys, dim], and the numbers are float[keys, 1].
        """
        before = self._floats_before(table)
        dim = table_of(table).emb_size
        rows = native.ops().asc_read_rows(handles=self._handles[table.op.name], width=before + dim + 1)
        return rows[:, before:before + dim], rows[:, before + dim:]

    def _added(self, table: tf.Variable, rows: tf.Tensor, values: tf.Tensor, count: Any) -> tf.Operation:
        """Return an op that adds ``values`` to the gradient sums of rows, and ``count`` to the counts of the rows."""
        n = tf.size(rows)
        columns = [tf.zeros([n, self._floats_before(table)]), values, count + tf.zeros([n, 1])]
        return native.ops().asc_write_rows(
            handles=tf.gather(self._handles[table.op.name], rows), rows=tf.concat(columns, axis=1), add=True)

    def _floats_before(self, table: tf.Variable) -> int:
        """Return the number of floats before the gradient sum in a home row.

        These floats are the embedding and the optimizer state.
        """
        known = table_of(table)
        slots = GradientState.of(GraphState.of(table.graph)).home_slots[known.table_name]
        return known.emb_size * (1 + len(slots.initial))


def _scattered(variable: tf.Variable, kind: str, indices: tf.Tensor, values: tf.Tensor) -> tf.Operation:
    """Return an op that changes rows of a variable. ``kind`` is "add", or "update" to overwrite the rows."""
    return tf.group(getattr(variable, "scatter_" + kind)(tf.IndexedSlices(values, indices)))


def _gathered(variable: tf.Variable, indices: tf.Tensor) -> tf.Tensor:
    """Return rows of a variable. The rows are read when the returned tensor is computed."""
    if hasattr(variable, "handle"):
        return variable.sparse_read(indices)
    return tf.gather(internals.reference_of(variable), indices)
