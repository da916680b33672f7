"""Begin and end of a card."""
from npu_bridge.estimator.npu.npu_plugin import *  # noqa: F403
