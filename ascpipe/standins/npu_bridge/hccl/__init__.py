"""Collectives."""
from ascpipe.tf import collectives as hccl_ops

__all__ = ["hccl_ops"]
