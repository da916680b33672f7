"""Collectives."""
from ascpipe.tf.incumbent import collectives as hccl_ops

__all__ = ["hccl_ops"]
