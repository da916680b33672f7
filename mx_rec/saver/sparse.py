"""Export of saved tables."""
from ascpipe.tf.export import export

__all__ = ["export"]
