"""The names of ``npu_bridge``."""
