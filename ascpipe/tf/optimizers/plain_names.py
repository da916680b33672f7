"""Optimizers of ``ascpipe.tf.optimizers``, with TensorFlow's arguments and defaults.

With ``init(use_dynamic_expansion=True)``, an optimizer updates rows of tables that grow. Otherwise, it updates rows in
variables. Without ``var_list``, an optimizer trains all trainable variables and all tables.
"""
from typing import Any, Dict, List, Optional, Tuple

import tensorflow as tf

from ascpipe.errors import OptimizerError
from ascpipe.tf.graph.expansion import HANDLES, LOCAL_ROWS
from ascpipe.tf.graph.gradient_state import GradientState
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.optimizers.adagrad import CustomizedAdagrad, CustomizedAdagradByAddress
from ascpipe.tf.optimizers.base import CustomizedOptimizer, LearningRate, OptimizerByAddress, unique_name
from ascpipe.tf.optimizers.ftrl import OPTIONS, CustomizedFtrl
from ascpipe.tf.optimizers.gradient_descent import CustomizedGradientDescent, CustomizedGradientDescentByAddress
from ascpipe.tf.optimizers.lazy_adam import RULES, CustomizedLazyAdam, CustomizedLazyAdamByAddress
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Number, Text, checked

_COMMON: Dict[str, Any] = {"learning_rate": LearningRate(), "name": Text(1, 200)}


class _TrainsTables(tf.compat.v1.train.Optimizer):
    """Mixin that trains tables by default. ``apply_gradients`` accepts the pairs that ``compute_gradients`` returns."""

    def compute_gradients(self, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any) -> List[Tuple[Any, Any]]:
        """Compute gradients as TensorFlow's optimizers do, including gradients of tables.

        ``var_list`` may contain tables, and ``table_variables()``. None means all trainable variables and all tables.
        """
        graph = tf.compat.v1.get_default_graph()
        if var_list is None:
            state = GraphState.of(graph)
            GradientState.of(state).trained_by_default.update(state.tables)
            tables = list(state.tables.values())
            rows = graph.get_collection(LOCAL_ROWS) if isinstance(self, OptimizerByAddress) else [
                table.variable for table in tables]
            var_list = [*tf.compat.v1.trainable_variables(), *rows]
        pairs = super().compute_gradients(loss, var_list, *args, **kwargs)
        if not isinstance(self, OptimizerByAddress):
            return pairs
        handles = dict(zip(graph.get_collection(LOCAL_ROWS), graph.get_collection(HANDLES)))
        return [(gradient, target if isinstance(target, tf.Variable) else handles.get(target, target))
                for gradient, target in pairs]


class _LazyAdam(_TrainsTables, CustomizedLazyAdam):
    pass


class _LazyAdamByAddress(_TrainsTables, CustomizedLazyAdamByAddress):
    pass


class _Adagrad(_TrainsTables, CustomizedAdagrad):
    pass


class _AdagradByAddress(_TrainsTables, CustomizedAdagradByAddress):
    pass


class _GradientDescent(_TrainsTables, CustomizedGradientDescent):
    pass


class _GradientDescentByAddress(_TrainsTables, CustomizedGradientDescentByAddress):
    pass


class _Ftrl(_TrainsTables, CustomizedFtrl):
    pass


@checked(**RULES)
def LazyAdam(learning_rate: Any = 0.001, *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,  # noqa: N802
             name: str = "LazyAdam") -> CustomizedOptimizer:
    """Create an Adam optimizer that updates only the rows of a batch.

    The formula is the same as in ``tf.contrib.opt.LazyAdamOptimizer``. Results differ from ``tf.train.AdamOptimizer``,
    which updates all rows in each step.

    Args:
        learning_rate: float in [0, 10], or a tensor that is read when gradients are applied.
        beta1: decay rate of the momentum, in (0, 1).
        beta2: decay rate of the velocity, in [0, 1].
        epsilon: float in (0, 1].
        name: 1 to 200 characters. The name of the optimizer is ``<name>_<count>``.

    Returns:
        A ``tf.compat.v1.train.Optimizer``. Without ``var_list``, it trains all trainable variables and all tables.

    Raises:
        ValueError: an argument has the wrong type or is out of range.
        EnvironmentError: ``init`` was not called.
    """
    kind = _LazyAdamByAddress if _expands() else _LazyAdam
    return kind(learning_rate, beta1, beta2, epsilon, name=unique_name(name))


@checked(initial_accumulator_value=Number(0.0, 1.0, open_low=True), **_COMMON)
def Adagrad(learning_rate: Any, *, initial_accumulator_value: float = 0.1,  # noqa: N802
            name: str = "Adagrad") -> CustomizedOptimizer:
    """Create an Adagrad optimizer that works like ``tf.compat.v1.train.AdagradOptimizer``.

    Args:
        learning_rate: float in [0, 10], or a tensor that is read when gradients are applied.
        initial_accumulator_value: number in (0, 1].
        name: 1 to 200 characters. The name of the optimizer is ``<name>_<count>``.

    Returns:
        A ``tf.compat.v1.train.Optimizer``. Without ``var_list``, it trains all trainable variables and all tables.

    Raises:
        ValueError: an argument has the wrong type or is out of range.
        EnvironmentError: ``init`` was not called.
    """
    kind = _AdagradByAddress if _expands() else _Adagrad
    return kind(learning_rate, float(initial_accumulator_value), name=unique_name(name))


@checked(weight_decay=Number(0.0, 1.0, optional=True), **_COMMON)
def GradientDescent(learning_rate: Any, *, weight_decay: Optional[float] = None,  # noqa: N802
                    name: str = "GradientDescent") -> CustomizedOptimizer:
    """Create a gradient descent optimizer that works like ``tf.compat.v1.train.GradientDescentOptimizer``.

    Weight decay is optional.

    Args:
        learning_rate: float in [0, 10], or a tensor that is read when gradients are applied.
        weight_decay: factor of the weight decay for rows of the batch, in [0, 1], or None for no decay.
            The gradient of a row becomes ``gradient + weight_decay * row``.
        name: 1 to 200 characters. The name of the optimizer is ``<name>_<count>``.

    Returns:
        A ``tf.compat.v1.train.Optimizer``. Without ``var_list``, it trains all trainable variables and all tables.

    Raises:
        ValueError: an argument has the wrong type or is out of range.
        EnvironmentError: ``init`` was not called.
    """
    kind = _GradientDescentByAddress if _expands() else _GradientDescent
    return kind(learning_rate, name=unique_name(name), weight_decay=weight_decay)


@checked(**_COMMON, **{option: OPTIONS[option] for option in OPTIONS if not option.endswith("_name")})
def Ftrl(learning_rate: Any, *, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1,  # noqa: N802
         l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
         l2_shrinkage_regularization_strength: float = 0.0, name: str = "Ftrl") -> CustomizedOptimizer:
    """Create an FTRL optimizer that works like ``tf.compat.v1.train.FtrlOptimizer``. Tables that grow are not
    supported.

    Square roots are exact, whereas TensorFlow approximates them. With l1 regularization, rows near zero therefore
    differ from TensorFlow's rows. The relative difference is up to 1e-4, and the absolute difference is up to 1e-7.

    Args:
        learning_rate: float in [0, 10], or a tensor that is read when gradients are applied.
        learning_rate_power: number in [-2147483647, 0].
        initial_accumulator_value: number in (0, 1].
        l1_regularization_strength: in [0, 1e4].
        l2_regularization_strength: in [0, 1e4].
        l2_shrinkage_regularization_strength: in [0, 1e4].
        name: 1 to 200 characters. The name of the optimizer is ``<name>_<count>``.

    Returns:
        A ``tf.compat.v1.train.Optimizer``. Without ``var_list``, it trains all trainable variables and all tables.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or tables grow
            (``init(use_dynamic_expansion=True)``).
        EnvironmentError: ``init`` was not called.
    """
    if _expands():
        raise OptimizerError("Ftrl cannot train tables that grow (asc.init(use_dynamic_expansion=True)). Use LazyAdam, "
                             "Adagrad or GradientDescent")
    numbers = (learning_rate_power, initial_accumulator_value, l1_regularization_strength, l2_regularization_strength)
    return _Ftrl(learning_rate, *map(float, numbers), name=unique_name(name),
                 l2_shrinkage_regularization_strength=float(l2_shrinkage_regularization_strength))


def _expands() -> bool:
    return Process.current().configuration.use_dynamic_expansion
