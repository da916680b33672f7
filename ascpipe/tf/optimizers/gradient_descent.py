"""Gradient descent: ``w -= lr * (g + weight_decay * w)`` for the rows of a batch."""
from typing import Any, Optional

import tensorflow as tf

from ascpipe.tf import internals
from ascpipe.tf.optimizers import base
from ascpipe.tf.running import native
from ascpipe.tf.validation import Float, Text, boolean, checked


class CustomizedGradientDescent(base.CustomizedOptimizer, tf.compat.v1.train.GradientDescentOptimizer):
    """TensorFlow's gradient descent for tables; no slot.

    Args:
        learning_rate, use_locking, name: as of TensorFlow's optimizer.
        weight_decay: how much of a row of the batch is added to its gradient, or None.
    """

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent",
                 weight_decay: Optional[float] = None) -> None:
        super().__init__(learning_rate, use_locking=use_locking, name=name)
        self._weight_decay = weight_decay

    def _apply_sparse_duplicate_indices(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        if self._weight_decay is None and not base.has_unique_indices(grad):
            # Takes repeated rows one after the other, as they come.
            return internals.apply_repeated_as(tf.compat.v1.train.GradientDescentOptimizer, self, grad, var)
        return super()._apply_sparse_duplicate_indices(grad, var)  # sums repeated rows, so that a row decays once

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        return native.ops().asc_apply_gradient_descent(
            rows=var, rate=base.scalar(self._learning_rate_tensor), weight_decay=self._weight_decay or 0.0,
            grad=grad.values, indices=grad.indices, use_locking=self._use_locking)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
        if self._weight_decay is not None:
            grad += self._weight_decay * var
        return super()._apply_dense(grad, var)


class CustomizedGradientDescentByAddress(base.OptimizerByAddress, CustomizedGradientDescent):
    """Gradient descent for expansion tables; without decay equal bit by bit to that for others."""

    def _apply_by_address(self, handles: tf.Tensor, gradient: tf.Tensor) -> tf.Operation:
        return native.ops().asc_apply_gradient_descent_by_address(
            handles=handles, grad=gradient, rate=base.scalar(self._learning_rate_tensor),
            weight_decay=self._weight_decay or 0.0)


@checked(learning_rate=base.LearningRate(), use_locking=boolean(), name=Text(1, 200), use_fusion_optim=boolean(),
         weight_decay=Float(1e-5, 1e-2, optional=True))
def create_hash_optimizer(learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent",
                          use_fusion_optim: bool = False,
                          weight_decay: Optional[float] = None) -> CustomizedGradientDescent:
    """Gradient descent.

    Args:
        learning_rate: float in [0, 10], or a tensor, read when gradients are applied.
        use_locking: whether updates of a variable exclude each other.
        name: 1 to 200 characters; the optimizer is named ``<name>_<count>``.
        use_fusion_optim: accepted; a table's rows are always updated by one op.
        weight_decay: in [1e-5, 1e-2], or None.

    Raises:
        ValueError: an argument of the wrong type or out of range; dynamic expansion mode.
    """
    base.refuse_expansion("gradient_descent.create_hash_optimizer",
                          "gradient_descent_by_addr.create_hash_optimizer_by_addr")
    return CustomizedGradientDescent(learning_rate, use_locking=use_locking, name=base.unique_name(name),
                                     weight_decay=weight_decay)


@checked(learning_rate=base.LearningRate(), weight_decay=Float(0.0, 1.0), use_locking=boolean(), name=Text(1, 200))
def create_hash_optimizer_by_addr(learning_rate: Any, weight_decay: float = 0.0001, use_locking: bool = False,
                                  name: str = "GradientDescentByAddr") -> CustomizedGradientDescentByAddress:
    """Gradient descent for expansion tables; pairs are (gradient of local rows, handles).

    Args:
        learning_rate: float in [0, 10], or a tensor, read when gradients are applied.
        weight_decay: in [0, 1].
        use_locking: without effect.
        name: 1 to 200 characters; the optimizer is named ``<name>_<count>``.

    Raises:
        ValueError: an argument of the wrong type or out of range; no dynamic expansion mode.
    """
    base.require_expansion("gradient_descent_by_addr.create_hash_optimizer_by_addr",
                           "gradient_descent.create_hash_optimizer")
    return CustomizedGradientDescentByAddress(learning_rate, name=base.unique_name(name), weight_decay=weight_decay)
