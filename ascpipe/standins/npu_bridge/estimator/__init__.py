"""Estimators and ops."""
from ascpipe.tf.ascend import npu_ops

__all__ = ["npu_ops"]
