"""Collectives, and ops of the card."""
from ascpipe.tf import collectives as hccl_ops
from ascpipe.tf.ascend import npu_ops

__all__ = ["hccl_ops", "npu_ops"]
