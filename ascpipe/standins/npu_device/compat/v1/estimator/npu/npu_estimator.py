"""Estimators."""
from npu_bridge.estimator.npu.npu_estimator import *  # noqa: F403
