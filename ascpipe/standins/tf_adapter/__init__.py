"""Stand-in: the names of the adapter in one place."""
from npu_bridge.npu_init import *  # noqa: F403
