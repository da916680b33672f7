"""FTRL for tables with variables."""
from ascpipe.tf.optimizers.ftrl import CustomizedFtrl, create_hash_optimizer

__all__ = ["CustomizedFtrl", "create_hash_optimizer"]
