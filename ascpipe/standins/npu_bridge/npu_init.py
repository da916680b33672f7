"""Re-exports what programs import from here by ``*``."""
import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from ascpipe.tf.incumbent import collectives as hccl_ops
from ascpipe.tf.incumbent.ascend import deterministic, npu_ops, npu_plugin
from ascpipe.tf.incumbent.ascend import iterations as util
from ascpipe.tf.incumbent.ascend.estimator import (
    DumpConfig,
    NPUEstimator,
    NPUEstimatorSpec,
    NPURunConfig,
    ProfilingConfig,
    npu_config_proto,
    npu_distributed_optimizer_wrapper,
    npu_hooks_append,
    npu_run_config_init,
    npu_tf_optimizer,
)

deterministic.install()  # a program may ask for it before it imports mx_rec, or without

__all__ = ["DumpConfig", "NPUEstimator", "NPUEstimatorSpec", "NPURunConfig", "ProfilingConfig", "RewriterConfig",
           "hccl_ops", "npu_config_proto", "npu_distributed_optimizer_wrapper", "npu_hooks_append", "npu_ops",
           "npu_plugin", "npu_run_config_init", "npu_tf_optimizer", "tf", "util"]
