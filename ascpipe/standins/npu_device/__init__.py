"""Stand-in for the adapter of TensorFlow 2, of which programs use the part for TensorFlow 1."""
from npu_device import compat

__all__ = ["compat"]
