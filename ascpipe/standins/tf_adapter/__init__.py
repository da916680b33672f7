"""Stand-in for ``tf_adapter``, which provides all names of ``npu_bridge.npu_init``."""
from ascpipe import standins

standins.stand_in(__name__)
