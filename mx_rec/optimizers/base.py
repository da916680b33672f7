"""Base class of optimizers for tables."""
from ascpipe.tf.optimizers.base import CustomizedOptimizer

__all__ = ["CustomizedOptimizer"]
