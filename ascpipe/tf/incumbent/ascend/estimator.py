"""``NPUEstimator``: TensorFlow's Estimator, which may train several iterations in one run of its session."""
from typing import Any, List, Optional, Tuple

import tensorflow as tf

from ascpipe.tf.incumbent.ascend import iterations

NPUEstimatorSpec = tf.estimator.EstimatorSpec


class NPUEstimator(tf.estimator.Estimator):
    """TensorFlow's Estimator.

    With ``config=NPURunConfig(iterations_per_loop=n)`` hooks are called once for n steps, of which the last one gives
    them its values; the last run before ``steps`` or ``max_steps`` is as short as it must be.

    Args:
        model_fn, model_dir, config, params, warm_start_from: as TensorFlow has them.
        kwargs: for a card, without effect.
    """

    def __init__(self, model_fn: Any, model_dir: Optional[str] = None, config: Any = None, params: Any = None,
                 warm_start_from: Any = None, **kwargs: Any) -> None:
        self._asked_steps: Tuple[Optional[int], Optional[int]] = (None, None)
        super().__init__(model_fn, model_dir, config, params, warm_start_from)

    def _assert_members_are_not_overridden(self) -> None:
        """Two are, below."""

    def _convert_train_steps_to_hooks(self, steps: Optional[int], max_steps: Optional[int]) -> Any:
        self._asked_steps = (steps, max_steps)
        return super()._convert_train_steps_to_hooks(steps, max_steps)

    def _call_model_fn(self, features: Any, labels: Any, mode: Any, config: Any) -> Any:
        spec = super()._call_model_fn(features, labels, mode, config)
        count = getattr(self._config, "iterations_per_loop", 1)
        if mode != tf.estimator.ModeKeys.TRAIN or count == 1:
            return spec
        loop = iterations.loop_op(spec.train_op)
        hook = _IterationsHook(loop, count, *self._asked_steps)
        return spec._replace(train_op=loop, training_hooks=[*spec.training_hooks, hook])


class _IterationsHook(tf.estimator.SessionRunHook):
    """Sets the number of iterations before each run."""

    def __init__(self, loop: tf.Operation, count: int, steps: Optional[int], max_steps: Optional[int]) -> None:
        self._loop = loop
        self._count = count
        self._steps = steps
        self._last = max_steps
        self._global_step: Any = None

    def begin(self) -> None:
        self._global_step = tf.compat.v1.train.get_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._steps is not None and self._last is None:
            self._last = session.run(self._global_step) + self._steps

    def before_run(self, run_context: Any) -> None:
        count = self._count
        if self._last is not None:
            count = max(1, min(count, self._last - run_context.session.run(self._global_step)))
        iterations.load_iterations(run_context.session, self._loop, int(count))


def npu_hooks_append(hooks_list: Optional[List[Any]] = None) -> List[Any]:
    """The hooks as given: with one rank nothing is broadcast."""
    return [] if hooks_list is None else hooks_list


def npu_tf_optimizer(opt: Any) -> Any:
    """The optimizer as given."""
    return opt


def npu_distributed_optimizer_wrapper(optimizer: Any) -> Any:
    """The optimizer as given: with one rank there is nothing to reduce."""
    return optimizer
