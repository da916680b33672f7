"""Estimators."""
from ascpipe.tf.ascend import iterations as util
from ascpipe.tf.ascend import npu_plugin

__all__ = ["npu_plugin", "util"]
