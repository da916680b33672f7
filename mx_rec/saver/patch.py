"""Path checks."""
from ascpipe.tf.incumbent.file_paths import validate_save_path

__all__ = ["validate_save_path"]
