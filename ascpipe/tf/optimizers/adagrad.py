"""Adagrad: ``accumulator += g * g; w -= lr * g / sqrt(accumulator)`` for the rows of a batch."""
from typing import Any

import tensorflow as tf

from ascpipe.tf.optimizers.base import CustomizedOptimizer, LearningRate, refuse_outside_expansion, unique_name
from ascpipe.tf.validation import Float, Text, boolean, checked


class CustomizedAdagrad(CustomizedOptimizer, tf.compat.v1.train.AdagradOptimizer):
    """TensorFlow's Adagrad for tables; slot ``accumulator``."""

    def _create_table_slots(self, table: tf.Variable) -> None:
        self._table_slot(table, self._initial_accumulator_value, "accumulator", self._name + "/accumulator")


@checked(learning_rate=LearningRate(), initial_accumulator_value=Float(0.0, 1.0, open_low=True),
         use_locking=boolean(), name=Text(1, 200))
def create_hash_optimizer(learning_rate: Any = 0.001, initial_accumulator_value: float = 0.9,
                          use_locking: bool = False, name: str = "Adagrad") -> CustomizedAdagrad:
    """Adagrad.

    Args:
        learning_rate: float in [0, 10], or a tensor, read when gradients are applied.
        initial_accumulator_value: in (0, 1].
        use_locking: whether updates of a variable exclude each other.
        name: 1 to 200 characters; the optimizer is named ``<name>_<count>``.

    Raises:
        ValueError: an argument of the wrong type or out of range.
    """
    return CustomizedAdagrad(learning_rate, initial_accumulator_value, use_locking=use_locking, name=unique_name(name))


@checked(learning_rate=LearningRate(), initial_accumulator_value=Float(0.0, 1.0, open_low=True),
         use_locking=boolean(), name=Text(1, 200))
def create_hash_optimizer_by_address(learning_rate: Any = 0.001, initial_accumulator_value: float = 0.9,
                                     use_locking: bool = False, name: str = "AdagradByAddr") -> CustomizedAdagrad:
    """Adagrad by row address: ``ValueError``, as its mode is not built yet."""
    raise refuse_outside_expansion("adagrad_by_addr.create_hash_optimizer_by_address")
