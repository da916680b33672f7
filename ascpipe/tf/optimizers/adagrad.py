"""Adagrad for the rows of a batch. Formula: ``accumulator += g * g; w -= lr * g * (1 / sqrt(accumulator))``."""
from typing import Any

import tensorflow as tf

from ascpipe.tf.optimizers import base
from ascpipe.tf.running import native
from ascpipe.tf.validation import Float, Text, boolean, checked


class CustomizedAdagrad(base.CustomizedOptimizer, tf.compat.v1.train.AdagradOptimizer):
    """TensorFlow's Adagrad for tables, with the slot ``accumulator``."""

    def _create_table_slots(self, table: tf.Variable) -> None:
        self._table_slot(table, self._initial_accumulator_value, "accumulator", self._name + "/accumulator")

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        if var.dtype.base_dtype != tf.float32:  # the variable is not a table
            return super()._apply_sparse(grad, var)
        return native.ops().asc_apply_adagrad(
            rows=var, accumulator=self.get_slot(var, "accumulator"), rate=base.scalar(self._learning_rate_tensor),
            grad=grad.values, indices=grad.indices, use_locking=self._use_locking)


class CustomizedAdagradByAddress(base.OptimizerByAddress, CustomizedAdagrad):
    """Adagrad for expansion tables. Formula: ``accumulator += g * g; w -= lr * g / sqrt(accumulator + 1e-7)``."""

    def _apply_by_address(self, handles: tf.Tensor, gradient: tf.Tensor) -> tf.Operation:
        return native.ops().asc_apply_adagrad_by_address(
            handles=handles, grad=gradient, rate=base.scalar(self._learning_rate_tensor))


_RULES = {"learning_rate": base.LearningRate(), "initial_accumulator_value": Float(0.0, 1.0, open_low=True),
          "use_locking": boolean(), "name": Text(1, 200)}


@checked(**_RULES)
def create_hash_optimizer(learning_rate: Any = 0.001, initial_accumulator_value: float = 0.9,
                          use_locking: bool = False, name: str = "Adagrad") -> CustomizedAdagrad:
    """Create an Adagrad optimizer for tables without dynamic expansion.

    Args:
        learning_rate: float in [0, 10], or a tensor that is read when gradients are applied.
        initial_accumulator_value: in (0, 1].
        use_locking: True to lock variables during updates.
        name: 1 to 200 characters. The name of the optimizer is ``<name>_<count>``.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or dynamic expansion mode is on.
    """
    base.refuse_expansion("adagrad.create_hash_optimizer", "adagrad_by_addr.create_hash_optimizer_by_address")
    return CustomizedAdagrad(learning_rate, initial_accumulator_value, use_locking=use_locking,
                             name=base.unique_name(name))


@checked(**_RULES)
def create_hash_optimizer_by_address(learning_rate: Any = 0.001, initial_accumulator_value: float = 0.9,
                                     use_locking: bool = False,
                                     name: str = "AdagradByAddr") -> CustomizedAdagradByAddress:
    """Create an Adagrad optimizer for expansion tables.

    Pass pairs (gradient of local rows, handles) to ``apply_gradients``. The arguments are the same as in
    ``create_hash_optimizer``. ``use_locking`` has no effect.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or dynamic expansion mode is off.
    """
    base.require_expansion("adagrad_by_addr.create_hash_optimizer_by_address", "adagrad.create_hash_optimizer")
    return CustomizedAdagradByAddress(learning_rate, initial_accumulator_value, name=base.unique_name(name))
