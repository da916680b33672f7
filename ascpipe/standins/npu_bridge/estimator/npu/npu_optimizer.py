"""Optimizers of several ranks."""
from ascpipe.tf.incumbent.ascend.estimator import npu_distributed_optimizer_wrapper, npu_tf_optimizer

__all__ = ["npu_distributed_optimizer_wrapper", "npu_tf_optimizer"]
