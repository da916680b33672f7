"""Ops of a card."""
from npu_bridge.estimator.npu_ops import *  # noqa: F403
