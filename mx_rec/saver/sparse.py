"""Export of saved tables."""
from ascpipe.tf.later import export

__all__ = ["export"]
