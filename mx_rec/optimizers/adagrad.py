"""Adagrad for tables without dynamic expansion."""
from ascpipe.tf.optimizers.adagrad import CustomizedAdagrad, create_hash_optimizer

__all__ = ["CustomizedAdagrad", "create_hash_optimizer"]
