"""What programs take from here by star import."""
from npu_bridge.npu_init import *  # noqa: F403
