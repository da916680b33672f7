"""FTRL for tables without dynamic expansion."""
from ascpipe.tf.optimizers.ftrl import CustomizedFtrl, create_hash_optimizer

__all__ = ["CustomizedFtrl", "create_hash_optimizer"]
