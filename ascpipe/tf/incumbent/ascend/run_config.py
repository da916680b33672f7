"""Configurations of programs for Ascend servers; settings that only a card would use are dropped."""
import inspect
import logging
from typing import Any, Optional

import tensorflow as tf

from ascpipe.tf.incumbent.ascend import deterministic as deterministic_sessions
from ascpipe.tf.validation import Choice, Integer

_log = logging.getLogger(__name__)

_FLAG = Choice(0, 1, False, True, optional=True)
_KNOWN = set(inspect.signature(tf.estimator.RunConfig.__init__).parameters) - {"self"}


class NPURunConfig(tf.estimator.RunConfig):
    """TensorFlow's ``RunConfig``, and how many iterations an Estimator trains in one run of its session.

    Args:
        iterations_per_loop: in [1, 2147483647]; hooks of ``NPUEstimator`` are called once per that many steps.
        deterministic: 1 or True: sessions compute on one intra-op thread, and the same in every run.
        kwargs: those of ``tf.estimator.RunConfig``, which have its defaults; others are for a card, and dropped.

    Attributes:
        iterations_per_loop: as given.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(self, iterations_per_loop: int = 1, *, deterministic: Optional[int] = None, **kwargs: Any) -> None:
        Integer(1).check("iterations_per_loop", iterations_per_loop)
        _FLAG.check("deterministic", deterministic)
        if deterministic:
            kwargs["session_config"] = deterministic_sessions.asking(kwargs.get("session_config"))
            deterministic_sessions.install()
        dropped = sorted(name for name in kwargs if name not in _KNOWN)
        if dropped:
            _log.info("NPURunConfig: without a card these are without effect: %s", ", ".join(dropped))
        super().__init__(**{name: value for name, value in kwargs.items() if name in _KNOWN})
        self.iterations_per_loop = iterations_per_loop


class CardConfig:
    """Settings that only a card would use: accepted, without effect."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


class DumpConfig(CardConfig):
    """Dumps of tensors by a card."""


class ProfilingConfig(CardConfig):
    """Measurements by a card."""


def npu_config_proto(config_proto: Optional[tf.compat.v1.ConfigProto] = None) -> tf.compat.v1.ConfigProto:
    """The configuration of a session, as given; else an empty one."""
    return tf.compat.v1.ConfigProto() if config_proto is None else config_proto


def npu_run_config_init(run_config: Optional[tf.estimator.RunConfig] = None) -> tf.estimator.RunConfig:
    """The configuration of an Estimator, as given; else an empty one."""
    return tf.estimator.RunConfig() if run_config is None else run_config
