"""Gradient descent for the rows of a batch. Formula: ``w -= lr * (g + weight_decay * w)``."""
from typing import Any, Optional

import tensorflow as tf

from ascpipe.tf import internals
from ascpipe.tf.optimizers import base
from ascpipe.tf.running import native
from ascpipe.tf.validation import Float, Text, boolean, checked


class CustomizedGradientDescent(base.CustomizedOptimizer, tf.compat.v1.train.GradientDescentOptimizer):
    """TensorFlow's gradient descent for tables, without slots.

    Args:
        learning_rate, use_locking, name: the same as in TensorFlow's optimizer.
        weight_decay: factor of the weight decay for rows of the batch, or None for no decay. ``weight_decay`` times the
            row is added to the gradient of the row.
    """

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent",
                 weight_decay: Optional[float] = None) -> None:
        super().__init__(learning_rate, use_locking=use_locking, name=name)
        self._weight_decay = weight_decay

    def _apply_sparse_duplicate_indices(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        if self._weight_decay is None and not base.has_unique_indices(grad):
            # TensorFlow's method applies several gradients of a row one after the other, in order.
            return internals.apply_repeated_as(tf.compat.v1.train.GradientDescentOptimizer, self, grad, var)
        return super()._apply_sparse_duplicate_indices(grad, var)  # sum first, so that a row decays only once

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        return native.ops().asc_apply_gradient_descent(
            rows=var, rate=base.scalar(self._learning_rate_tensor), weight_decay=self._weight_decay or 0.0,
            grad=grad.values, indices=grad.indices, use_locking=self._use_locking)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
        if self._weight_decay is not None:
            grad += self._weight_decay * var
        return super()._apply_dense(grad, var)


class CustomizedGradientDescentByAddress(base.OptimizerByAddress, CustomizedGradientDescent):
    """Gradient descent for expansion tables.

    Without decay, results are bitwise equal to the results of ``CustomizedGradientDescent``.
    """

    def _apply_by_address(self, handles: tf.Tensor, gradient: tf.Tensor) -> tf.Operation:
        return native.ops().asc_apply_gradient_descent_by_address(
            handles=handles, grad=gradient, rate=base.scalar(self._learning_rate_tensor),
            weight_decay=self._weight_decay or 0.0)


@checked(learning_rate=base.LearningRate(), use_locking=boolean(), name=Text(1, 200), use_fusion_optim=boolean(),
         weight_decay=Float(1e-5, 1e-2, optional=True))
def create_hash_optimizer(learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent",
                          use_fusion_optim: bool = False,
                          weight_decay: Optional[float] = None) -> CustomizedGradientDescent:
    """Create a gradient descent optimizer for tables without dynamic expansion.

    Args:
        learning_rate: float in [0, 10], or a tensor that is read when gradients are applied.
        use_locking: True to lock variables during updates.
        name: 1 to 200 characters. The name of the optimizer is ``<name>_<count>``.
        use_fusion_optim: has no effect, because one op always updates the rows of a table.
        weight_decay: float in [1e-5, 1e-2], or None.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or dynamic expansion mode is on.
    """
    base.refuse_expansion("gradient_descent.create_hash_optimizer",
                          "gradient_descent_by_addr.create_hash_optimizer_by_addr")
    return CustomizedGradientDescent(learning_rate, use_locking=use_locking, name=base.unique_name(name),
                                     weight_decay=weight_decay)


@checked(learning_rate=base.LearningRate(), weight_decay=Float(0.0, 1.0), use_locking=boolean(), name=Text(1, 200))
def create_hash_optimizer_by_addr(learning_rate: Any, weight_decay: float = 0.0001, use_locking: bool = False,
                                  name: str = "GradientDescentByAddr") -> CustomizedGradientDescentByAddress:
    """Create a gradient descent optimizer for expansion tables.

    Pass pairs (gradient of local rows, handles) to ``apply_gradients``.

    Args:
        learning_rate: float in [0, 10], or a tensor that is read when gradients are applied.
        weight_decay: float in [0, 1].
        use_locking: has no effect.
        name: 1 to 200 characters. The name of the optimizer is ``<name>_<count>``.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or dynamic expansion mode is off.
    """
    base.require_expansion("gradient_descent_by_addr.create_hash_optimizer_by_addr",
                           "gradient_descent.create_hash_optimizer")
    return CustomizedGradientDescentByAddress(learning_rate, name=base.unique_name(name), weight_decay=weight_decay)
