"""Stand-in for the TensorFlow 1 part of ``npu_device``, the TensorFlow 2 adapter of Ascend servers."""
from ascpipe import standins

standins.stand_in(__name__)
