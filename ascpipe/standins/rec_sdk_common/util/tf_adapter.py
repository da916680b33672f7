"""Collectives, ops of the card, and what else the adapter has."""
from npu_bridge.npu_init import *  # noqa: F403
