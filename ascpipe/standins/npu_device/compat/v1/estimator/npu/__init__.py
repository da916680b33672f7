"""Estimators."""
from npu_bridge.estimator.npu import *  # noqa: F403
