"""Ops of a card."""
from ascpipe.tf.ascend.npu_ops import dropout

__all__ = ["dropout"]
