"""Optimizers of several ranks."""
from npu_bridge.estimator.npu.npu_optimizer import *  # noqa: F403
