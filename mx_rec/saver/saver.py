"""Savers."""
from ascpipe.tf.saver import Saver

__all__ = ["Saver"]
