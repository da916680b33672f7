"""The Estimator demo's own file of this name: which of the two packages of an Ascend server it takes."""
import tensorflow as tf

if tf.__version__.startswith("1"):
    from npu_bridge.npu_init import DumpConfig, NPUEstimator, NPURunConfig, npu_hooks_append
else:
    from npu_device.compat.v1.npu_init import DumpConfig, NPUEstimator, NPURunConfig, npu_hooks_append

__all__ = ["DumpConfig", "NPUEstimator", "NPURunConfig", "npu_hooks_append"]
