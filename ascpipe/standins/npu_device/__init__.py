"""Stand-in for the adapter of TensorFlow 2, of which programs use the part for TensorFlow 1."""
from ascpipe import import_hints

import_hints.install(__name__)

from npu_device import compat  # noqa: E402

__all__ = ["compat"]
