"""Estimators and ops."""
from ascpipe.tf.incumbent.ascend import npu_ops

__all__ = ["npu_ops"]
