"""Lazy Adam, which uses TensorFlow's formulas but updates only the rows of a batch.

``m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g*g; w -= lr * sqrt(1-b2^t)/(1-b1^t) * m / (sqrt(v) + epsilon)``
"""
from typing import Any, Dict

import tensorflow as tf

from ascpipe.tf.optimizers import base
from ascpipe.tf.running import native
from ascpipe.tf.validation import Float, Text, boolean, checked

#: Names of the slots in Rec SDK.
_OTHER_NAMES = {"momentum": "m", "velocity": "v"}


class CustomizedLazyAdam(base.CustomizedOptimizer, tf.compat.v1.train.AdamOptimizer):
    """Lazy Adam for tables, with the slots ``m`` (momentum) and ``v`` (velocity).

    The formula is the same as in ``tf.contrib.opt.LazyAdamOptimizer``, but square roots are exact.

    Attributes:
        _lr: learning rate, with the same name as in TensorFlow's Adam. Programs may replace it. It is read when
            gradients are applied.
    """

    _lr: Any = None

    def get_slot(self, var: tf.Variable, name: str) -> tf.Variable:
        """Return a slot variable. ``momentum`` is an alias of ``m``, and ``velocity`` is an alias of ``v``."""
        return super().get_slot(var, _OTHER_NAMES.get(name, name))

    def _create_table_slots(self, table: tf.Variable) -> None:
        # Create beta1^t and beta2^t. TensorFlow creates them for the first dense variable, which may not exist.
        self._create_non_slot_variable(initial_value=self._beta1, name="beta1_power", colocate_with=table)
        self._create_non_slot_variable(initial_value=self._beta2, name="beta2_power", colocate_with=table)
        self._table_slot(table, 0.0, "m", self._name + "/momentum")
        self._table_slot(table, 0.0, "v", self._name + "/velocity")

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        return native.ops().asc_apply_lazy_adam(
            rows=var, m=self.get_slot(var, "m"), v=self.get_slot(var, "v"), grad=grad.values, indices=grad.indices,
            use_locking=self._use_locking, **self._numbers())

    def _numbers(self) -> Dict[str, tf.Tensor]:
        powers = self._get_beta_accumulators()
        values = (self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t, *powers)
        names = ("rate", "beta1", "beta2", "epsilon", "beta1_power", "beta2_power")
        return {name: base.scalar(value) for name, value in zip(names, values)}


class CustomizedLazyAdamByAddress(base.OptimizerByAddress, CustomizedLazyAdam):
    """Lazy Adam for expansion tables. Results are bitwise equal to the results of ``CustomizedLazyAdam``.

    A home row is [embedding | m | v].
    """

    def _apply_by_address(self, handles: tf.Tensor, gradient: tf.Tensor) -> tf.Operation:
        return native.ops().asc_apply_lazy_adam_by_address(handles=handles, grad=gradient, **self._numbers())


RULES = {
    "learning_rate": base.LearningRate(), "beta1": Float(0.0, 1.0, open_low=True, open_high=True),
    "beta2": Float(0.0, 1.0), "epsilon": Float(0.0, 1.0, open_low=True), "name": Text(1, 200),
}


@checked(use_fusion_optim=boolean(), **RULES)
def create_hash_optimizer(learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                          name: str = "LazyAdam", use_fusion_optim: bool = False) -> CustomizedLazyAdam:
    """Create a Lazy Adam optimizer for tables without dynamic expansion.

    Args:
        learning_rate: float in [0, 10], or a tensor that is read when gradients are applied.
        beta1: decay rate of the momentum, in (0, 1).
        beta2: decay rate of the velocity, in [0, 1].
        epsilon: float in (0, 1].
        name: 1 to 200 characters. The name of the optimizer is ``<name>_<count>``.
        use_fusion_optim: has no effect, because one op always updates the rows of a table.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or dynamic expansion mode is on.
    """
    base.refuse_expansion("lazy_adam.create_hash_optimizer", "lazy_adam_by_addr.create_hash_optimizer_by_address")
    return CustomizedLazyAdam(learning_rate, beta1, beta2, epsilon, name=base.unique_name(name))


@checked(**RULES)
def create_hash_optimizer_by_address(learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                                     epsilon: float = 1e-8,
                                     name: str = "LazyAdamByAddress") -> CustomizedLazyAdamByAddress:
    """Create a Lazy Adam optimizer for expansion tables.

    Pass pairs (gradient of local rows, handles) to ``apply_gradients``. The arguments are the same as in
    ``create_hash_optimizer``.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or dynamic expansion mode is off.
    """
    base.require_expansion("lazy_adam_by_addr.create_hash_optimizer_by_address", "lazy_adam.create_hash_optimizer")
    return CustomizedLazyAdamByAddress(learning_rate, beta1, beta2, epsilon, name=base.unique_name(name))
