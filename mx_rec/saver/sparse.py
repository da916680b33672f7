"""Export of saved tables."""
from ascpipe.tf.checkpoints.export import export

__all__ = ["export"]
