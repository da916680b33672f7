"""Collectives, and ops of an Ascend card."""
from ascpipe.tf.incumbent import collectives as hccl_ops
from ascpipe.tf.incumbent.ascend import npu_ops

__all__ = ["hccl_ops", "npu_ops"]
