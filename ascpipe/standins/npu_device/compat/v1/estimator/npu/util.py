"""Several iterations in one run."""
from npu_bridge.estimator.npu.util import *  # noqa: F403
