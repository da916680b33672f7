"""FTRL for the rows of a batch, with the formulas and sign conventions of TensorFlow."""
import logging
from typing import Any

import tensorflow as tf

from ascpipe.tf import internals
from ascpipe.tf.optimizers.base import CustomizedOptimizer, LearningRate, refuse_expansion, scalar, unique_name
from ascpipe.tf.running import native
from ascpipe.tf.validation import MAX_INT32, Number, Text, boolean, checked

_log = logging.getLogger(__name__)

_REGULARIZATION = Number(0.0, 1e4)
OPTIONS = {
    "learning_rate_power": Number(-MAX_INT32, 0.0), "initial_accumulator_value": Number(0.0, 1.0, open_low=True),
    "l1_regularization_strength": _REGULARIZATION, "l2_regularization_strength": _REGULARIZATION,
    "l2_shrinkage_regularization_strength": _REGULARIZATION, "accum_name": Text(1, 255, optional=True),
    "linear_name": Text(1, 255, optional=True),
}


class CustomizedFtrl(CustomizedOptimizer, tf.compat.v1.train.FtrlOptimizer):
    """TensorFlow's FTRL for tables, with the slots ``accum`` and ``linear``."""

    def _create_table_slots(self, table: tf.Variable) -> None:
        self._table_slot(table, self._initial_accumulator_value, "accum", self._accum_name or self._name + "/accum")
        self._table_slot(table, 0.0, "linear", self._linear_name or self._name + "/linear")

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
        if var.dtype.base_dtype != tf.float32:  # the variable is not a table
            return super()._apply_sparse(grad, var)
        return native.ops().asc_apply_ftrl(
            rows=var, accum=self.get_slot(var, "accum"), linear=self.get_slot(var, "linear"),
            rate=scalar(self._learning_rate_tensor), l1=scalar(self._l1_regularization_strength_tensor),
            l2=scalar(internals.l2_of_ftrl(self)), l2_shrinkage=self._l2_shrinkage_regularization_strength,
            power=scalar(self._learning_rate_power_tensor), grad=grad.values, indices=grad.indices,
            use_locking=self._use_locking)


@checked(learning_rate=LearningRate(), use_locking=boolean(), name=Text(1, 200), **OPTIONS)
def create_hash_optimizer(learning_rate: Any, use_locking: bool = False, name: str = "Ftrl",
                          **kwargs: Any) -> CustomizedFtrl:
    """Create an FTRL optimizer for tables without dynamic expansion.

    Args:
        learning_rate: float in [0, 10], or a tensor that is read when gradients are applied.
        use_locking: True to lock variables during updates.
        name: 1 to 200 characters. The name of the optimizer is ``<name>_<count>``.
        learning_rate_power: number in [-2147483647, 0]. The default is -0.5.
        initial_accumulator_value: number in (0, 1]. The default is 0.1.
        l1_regularization_strength, l2_regularization_strength, l2_shrinkage_regularization_strength: numbers in [0,
            1e4]. The default is 0.
        accum_name, linear_name: names of the slot variables, 1 to 255 characters.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or dynamic expansion mode is on.
    """
    refuse_expansion("ftrl.create_hash_optimizer", "an optimizer by address: lazy_adam_by_addr, adagrad_by_addr or "
                     "gradient_descent_by_addr")
    unknown = [option for option in kwargs if option not in OPTIONS]
    if unknown:
        _log.warning("ftrl.create_hash_optimizer() does not have these arguments, which are ignored: %s",
                     ", ".join(sorted(unknown)))
    options = {option: float(value) if isinstance(value, int) else value
               for option, value in kwargs.items() if option in OPTIONS}
    return CustomizedFtrl(learning_rate, use_locking=use_locking, name=unique_name(name), **options)
