"""Base class of the optimizers of expansion tables, which change rows in place by handle."""
from typing import Any, Dict, Iterable, List, Optional, Tuple

import tensorflow as tf

from ascpipe.tf.graph.expansion import ExpansionLookup, lookup_of
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import HomeSlots
from ascpipe.tf.optimizers.base import CustomizedOptimizer, is_started


class OptimizerByAddress(CustomizedOptimizer):
    """Base class of the optimizers by address; listed before the class for tables with variables.

    State lies beside the embedding in its home row: what the other optimizer keeps in a slot variable, by the same
    name and with the same initial value.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._handles: Dict[str, tf.Tensor] = {}  # by name of the table

    def apply_gradients(self, grads_and_vars: Iterable[Tuple[Any, tf.Tensor]],
                        global_step: Optional[tf.Variable] = None, name: Optional[str] = None) -> tf.Operation:
        """An op that changes the rows of a batch.

        Args:
            grads_and_vars: pairs (gradient, handles): the gradient of a table's local rows, or None, which changes
                nothing; the table's handles, from the collection ``ASCEND_SPARSE_LOOKUP_ID_OFFSET``.
            global_step: is incremented afterwards.
            name: of the op.

        Raises:
            ValueError: what stands in the place of handles is none; a table twice; a table that another optimizer
                updates; no gradient at all.
            RuntimeError: the pipeline was started.
        """
        pairs: List[Tuple[Any, tf.Variable]] = []
        for gradient, handles in grads_and_vars:
            table = lookup_of(handles).table
            if any(variable is table.variable for _, variable in pairs):
                raise ValueError("optimizer {!r}: table {!r} stands in two pairs; the local rows of all its lookups "
                                 "are one tensor".format(self._name, table.table_name))
            self._handles[table.variable.op.name] = handles
            pairs.append((gradient, table.variable))
        # The variable has no rows: it stands for the table.
        return super().apply_gradients(pairs, global_step, name)

    def _apply_by_address(self, handles: tf.Tensor, gradient: tf.Tensor) -> tf.Operation:
        """The op that changes the rows at ``handles``, int64[n] without repeats, by a gradient, float[n, dim]."""
        raise NotImplementedError

    def _create_slots(self, var_list: List[tf.Variable]) -> None:
        for table in var_list:
            self._own(table)
        super()._create_slots(var_list)

    def _table_slot(self, table: tf.Variable, initial: float, slot_name: str, op_name: str) -> None:
        self._own(table).initial[slot_name] = initial

    def _own(self, table: tf.Variable) -> HomeSlots:
        """The state beside a table's rows, owned by the optimizer that asks first."""
        lookup = lookup_of(self._handles[table.op.name])
        name = lookup.table.table_name
        slots = GraphState.of(table.graph).home_slots
        if name not in slots:
            if is_started(table.graph):
                raise RuntimeError("optimizer {!r}: the pipeline was started, so rows of table {!r} cannot get a place "
                                   "for its state any more; apply gradients before the first run of a session".format(
                                       self._name, name))
            slots[name] = HomeSlots(self)
        if slots[name].owner is not self:
            raise ValueError("table {!r} is updated by optimizer {!r}, whose state lies in its rows, and cannot be by "
                             "{!r}, too".format(name, slots[name].owner.get_name(), self._name))
        return slots[name]

    def _apply_sparse_duplicate_indices(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        # Sums repeated rows first, where TensorFlow's gradient descent would scatter them one by one.
        return CustomizedOptimizer._apply_sparse_duplicate_indices(self, grad, var)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
        places = self._lookup(var).places
        trained = tf.squeeze(tf.where(tf.equal(places, tf.range(tf.size(places)))), axis=1)
        return self._apply_sparse(tf.IndexedSlices(tf.gather(grad, trained), trained), var)

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        return self._apply_by_address(tf.gather(self._handles[var.op.name], grad.indices), grad.values)

    def _lookup(self, table: tf.Variable) -> ExpansionLookup:
        return lookup_of(self._handles[table.op.name])
