"""Savers, and checks of paths."""
from ascpipe.tf.file_paths import validate_read_file
from ascpipe.tf.saver import Saver

__all__ = ["Saver", "validate_read_file"]
