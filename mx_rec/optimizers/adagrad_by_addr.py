"""Adagrad for expansion tables."""
from ascpipe.tf.optimizers.adagrad import create_hash_optimizer_by_address

__all__ = ["create_hash_optimizer_by_address"]
