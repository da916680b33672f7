"""Lazy Adam for tables without dynamic expansion."""
from ascpipe.tf.optimizers.lazy_adam import CustomizedLazyAdam, create_hash_optimizer

__all__ = ["CustomizedLazyAdam", "create_hash_optimizer"]
