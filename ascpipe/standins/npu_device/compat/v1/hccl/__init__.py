"""Collectives."""
from npu_bridge.hccl import *  # noqa: F403
