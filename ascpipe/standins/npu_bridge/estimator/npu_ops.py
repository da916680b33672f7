"""Ops of a card."""
from ascpipe.tf.incumbent.ascend.npu_ops import dropout

__all__ = ["dropout"]
