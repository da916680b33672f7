"""Estimators and ops."""
from npu_bridge.estimator import *  # noqa: F403
