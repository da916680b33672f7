"""Collectives."""
from npu_bridge.hccl.hccl_ops import *  # noqa: F403
