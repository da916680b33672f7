"""Stand-in for ``npu_bridge``, the TensorFlow 1.15 adapter of Ascend servers."""
from ascpipe import standins

standins.stand_in(__name__)
