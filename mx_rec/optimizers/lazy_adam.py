"""Lazy Adam for tables with variables."""
from ascpipe.tf.optimizers.lazy_adam import CustomizedLazyAdam, create_hash_optimizer

__all__ = ["CustomizedLazyAdam", "create_hash_optimizer"]
