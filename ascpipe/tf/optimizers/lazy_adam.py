"""Lazy Adam: Adam that moves the rows of a batch only, with TensorFlow's formulas.

``m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g*g; w -= lr * sqrt(1-b2^t)/(1-b1^t) * m / (sqrt(v) + epsilon)``
"""
from typing import Any, List, Tuple

import tensorflow as tf

from ascpipe.tf.optimizers.base import (
    CustomizedOptimizer,
    LearningRate,
    refuse_expansion,
    require_expansion,
    unique_name,
)
from ascpipe.tf.optimizers.by_address import OptimizerByAddress
from ascpipe.tf.validation import Float, Text, boolean, checked

#: The incumbent's words for the state, beside TensorFlow's.
_OTHER_NAMES = {"momentum": "m", "velocity": "v"}


class CustomizedLazyAdam(CustomizedOptimizer, tf.compat.v1.train.AdamOptimizer):
    """Lazy Adam for tables; slots ``m`` (momentum) and ``v`` (velocity).

    Equal bit by bit to ``tf.contrib.opt.LazyAdamOptimizer``, without loading tf.contrib.
    """

    def get_slot(self, var: tf.Variable, name: str) -> tf.Variable:
        """A slot variable; ``momentum`` is another word for ``m``, ``velocity`` for ``v``."""
        return super().get_slot(var, _OTHER_NAMES.get(name, name))

    def _create_table_slots(self, table: tf.Variable) -> None:
        self._create_powers(table)
        self._table_slot(table, 0.0, "m", self._name + "/momentum")
        self._table_slot(table, 0.0, "v", self._name + "/velocity")

    def _create_powers(self, table: tf.Variable) -> None:
        """``beta1^t`` and ``beta2^t``: TensorFlow makes them with the first variable, here it is a table."""
        self._create_non_slot_variable(initial_value=self._beta1, name="beta1_power", colocate_with=table)
        self._create_non_slot_variable(initial_value=self._beta2, name="beta2_power", colocate_with=table)

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m, new_v, step = self._moved(tf.gather(m, grad.indices), tf.gather(v, grad.indices), grad.values)
        return tf.group(
            tf.compat.v1.scatter_sub(var, grad.indices, step, use_locking=self._use_locking),
            tf.compat.v1.scatter_update(m, grad.indices, new_m, use_locking=self._use_locking),
            tf.compat.v1.scatter_update(v, grad.indices, new_v, use_locking=self._use_locking))

    def _moved(self, m: tf.Tensor, v: tf.Tensor, gradient: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """New rows of ``m`` and ``v``, and what is taken from the embeddings."""
        dtype = gradient.dtype
        beta1_power, beta2_power = (tf.cast(power, dtype) for power in self._get_beta_accumulators())
        rate, beta1, beta2, epsilon = (tf.cast(value, dtype) for value in (
            self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t))
        rate = rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power)
        new_m = beta1 * m + (1 - beta1) * gradient
        new_v = beta2 * v + (1 - beta2) * tf.square(gradient)
        return new_m, new_v, rate * new_m / (tf.sqrt(new_v) + epsilon)


class CustomizedLazyAdamByAddress(OptimizerByAddress, CustomizedLazyAdam):
    """Lazy Adam for expansion tables, equal bit by bit to that for others; a home row is [embedding | m | v]."""

    def _updated(self, rows: List[tf.Tensor], gradient: tf.Tensor) -> List[tf.Tensor]:
        embedding, m, v = rows
        new_m, new_v, step = self._moved(m, v, gradient)
        return [embedding - step, new_m, new_v]


_RULES = {
    "learning_rate": LearningRate(), "beta1": Float(0.0, 1.0, open_low=True, open_high=True), "beta2": Float(0.0, 1.0),
    "epsilon": Float(0.0, 1.0, open_low=True), "name": Text(1, 200),
}


@checked(use_fusion_optim=boolean(), **_RULES)
def create_hash_optimizer(learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                          name: str = "LazyAdam", use_fusion_optim: bool = False) -> CustomizedLazyAdam:
    """Lazy Adam.

    Args:
        learning_rate: float in [0, 10], or a tensor, read when gradients are applied.
        beta1: in (0, 1), decay of the momentum.
        beta2: in [0, 1], decay of the velocity.
        epsilon: in (0, 1].
        name: 1 to 200 characters; the optimizer is named ``<name>_<count>``.
        use_fusion_optim: a performance hint, without effect.

    Raises:
        ValueError: an argument of the wrong type or out of range; dynamic expansion mode.
    """
    refuse_expansion("lazy_adam.create_hash_optimizer", "lazy_adam_by_addr.create_hash_optimizer_by_address")
    return CustomizedLazyAdam(learning_rate, beta1, beta2, epsilon, name=unique_name(name))


@checked(**_RULES)
def create_hash_optimizer_by_address(learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                                     epsilon: float = 1e-8,
                                     name: str = "LazyAdamByAddress") -> CustomizedLazyAdamByAddress:
    """Lazy Adam for expansion tables; pairs are (gradient of local rows, handles).

    Args: as of ``create_hash_optimizer``.

    Raises:
        ValueError: an argument of the wrong type or out of range; no dynamic expansion mode.
    """
    require_expansion("lazy_adam_by_addr.create_hash_optimizer_by_address", "lazy_adam.create_hash_optimizer")
    return CustomizedLazyAdamByAddress(learning_rate, beta1, beta2, epsilon, name=unique_name(name))
