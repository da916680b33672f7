"""Estimators."""
from ascpipe.tf.incumbent.ascend import iterations as util
from ascpipe.tf.incumbent.ascend import npu_plugin

__all__ = ["npu_plugin", "util"]
