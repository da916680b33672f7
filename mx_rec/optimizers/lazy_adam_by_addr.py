"""Lazy Adam for expansion tables."""
from ascpipe.tf.optimizers.lazy_adam import create_hash_optimizer_by_address

__all__ = ["create_hash_optimizer_by_address"]
