"""Adagrad for tables with variables."""
from ascpipe.tf.optimizers.adagrad import CustomizedAdagrad, create_hash_optimizer

__all__ = ["CustomizedAdagrad", "create_hash_optimizer"]
