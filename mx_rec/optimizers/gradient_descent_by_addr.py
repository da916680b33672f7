"""Gradient descent for expansion tables."""
from ascpipe.tf.optimizers.gradient_descent import create_hash_optimizer_by_addr

__all__ = ["create_hash_optimizer_by_addr"]
