"""``NPUEstimator``, its configuration and other functions of Ascend's Estimator API."""
import inspect
from typing import Any, List, Optional, Tuple

import tensorflow as tf

from ascpipe import program_log, ranks
from ascpipe.tf.incumbent.ascend import deterministic as deterministic_sessions
from ascpipe.tf.incumbent.ascend import iterations
from ascpipe.tf.program.dense_variables import BroadcastGlobalVariablesHook, DistributedOptimizer
from ascpipe.tf.validation import Choice, Integer

NPUEstimatorSpec = tf.estimator.EstimatorSpec
_FLAG = Choice(0, 1, False, True, optional=True)
_KNOWN = set(inspect.signature(tf.estimator.RunConfig.__init__).parameters) - {"self"}


class NPURunConfig(tf.estimator.RunConfig):
    """TensorFlow's ``RunConfig``, extended by the number of iterations that ``NPUEstimator`` trains per session run.

    Args:
        iterations_per_loop: int in [1, 2147483647]. Hooks of ``NPUEstimator`` are called once per
            ``iterations_per_loop`` steps.
        deterministic: if 1 or True, the results of repeated runs of the program are bitwise equal. Sessions then have
            one intra-op thread.
        kwargs: arguments of ``tf.estimator.RunConfig``. Unknown arguments are logged and ignored.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(self, iterations_per_loop: int = 1, *, deterministic: Optional[int] = None, **kwargs: Any) -> None:
        Integer(1).check("iterations_per_loop", iterations_per_loop)
        _FLAG.check("deterministic", deterministic)
        if deterministic:
            kwargs["session_config"] = deterministic_sessions.asking(kwargs.get("session_config"))
            deterministic_sessions.install()
        dropped = sorted(name for name in kwargs if name not in _KNOWN)
        if dropped:
            program_log.program_logger().info("NPURunConfig: these arguments have no effect without an Ascend card: %s",
                                              ", ".join(dropped))
        super().__init__(**{name: value for name, value in kwargs.items() if name in _KNOWN})
        self.iterations_per_loop = iterations_per_loop


class CardConfig:
    """Settings for an Ascend card. ascpipe ignores these settings."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


class DumpConfig(CardConfig):
    """Settings for tensor dumps by an Ascend card. ascpipe ignores these settings."""


class ProfilingConfig(CardConfig):
    """Settings for profiling by an Ascend card. ascpipe ignores these settings."""


class NPUEstimator(tf.estimator.Estimator):
    """TensorFlow's Estimator, extended to train several iterations per session run.

    With ``config=NPURunConfig(iterations_per_loop=n)``, hooks are called once per n steps, and receive the values of
    the last step. The last run has fewer steps if necessary, so that training ends exactly at ``steps`` or
    ``max_steps``.

    Args:
        kwargs: settings for an Ascend card. They are ignored.
    """

    def __init__(self, model_fn: Any, model_dir: Optional[str] = None, config: Any = None, params: Any = None,
                 warm_start_from: Any = None, **kwargs: Any) -> None:
        self._requested_steps: Tuple[Optional[int], Optional[int]] = (None, None)
        super().__init__(model_fn, model_dir, config, params, warm_start_from)

    def _assert_members_are_not_overridden(self) -> None:
        """Disable TensorFlow's check for overridden methods, because this class overrides methods of Estimator."""

    def _convert_train_steps_to_hooks(self, steps: Optional[int], max_steps: Optional[int]) -> Any:
        self._requested_steps = (steps, max_steps)
        return super()._convert_train_steps_to_hooks(steps, max_steps)

    def _call_model_fn(self, features: Any, labels: Any, mode: Any, config: Any) -> Any:
        spec = super()._call_model_fn(features, labels, mode, config)
        count = getattr(self._config, "iterations_per_loop", 1)
        if mode != tf.estimator.ModeKeys.TRAIN or count == 1:
            return spec
        loop = iterations.loop_op(spec.train_op)
        hook = _IterationsHook(loop, count, *self._requested_steps)
        return spec._replace(train_op=loop, training_hooks=[*spec.training_hooks, hook])


class _IterationsHook(tf.estimator.SessionRunHook):
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


def npu_config_proto(config_proto: Optional[tf.compat.v1.ConfigProto] = None) -> tf.compat.v1.ConfigProto:
    """Return the given session configuration, or an empty configuration."""
    return tf.compat.v1.ConfigProto() if config_proto is None else config_proto


def npu_run_config_init(run_config: Optional[tf.estimator.RunConfig] = None) -> tf.estimator.RunConfig:
    """Return the given Estimator configuration, or the default configuration."""
    return tf.estimator.RunConfig() if run_config is None else run_config


def npu_hooks_append(hooks_list: Optional[List[Any]] = None) -> List[Any]:
    """Return the given hooks. With several ranks, the result also contains a hook that broadcasts rank 0's dense
    variables.
    """
    hooks = [] if hooks_list is None else hooks_list
    return [*hooks, BroadcastGlobalVariablesHook()] if ranks.launched() and ranks.get_rank_size() > 1 else hooks


def npu_tf_optimizer(opt: Any) -> Any:
    """Return the optimizer unchanged."""
    return opt


def npu_distributed_optimizer_wrapper(optimizer: Any) -> Any:
    """Return the given optimizer or, with several ranks, a wrapper that averages gradients of dense variables."""
    return DistributedOptimizer(optimizer) if ranks.launched() and ranks.get_rank_size() > 1 else optimizer
