"""Checks of paths."""
from ascpipe.tf.file_paths import validate_save_path

__all__ = ["validate_save_path"]
