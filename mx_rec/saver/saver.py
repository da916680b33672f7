"""Saver and path checks."""
from ascpipe.tf.checkpoints.saver import Saver
from ascpipe.tf.incumbent.file_paths import validate_read_file

__all__ = ["Saver", "validate_read_file"]
