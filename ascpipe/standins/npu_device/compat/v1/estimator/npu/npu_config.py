"""Configurations."""
from npu_bridge.estimator.npu.npu_config import *  # noqa: F403
