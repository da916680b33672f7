"""Datasets that read files of training data: ``asc.data.read``."""
from ascpipe.tf.data.features import hashed
from ascpipe.tf.data.reading import read

__all__ = ["hashed", "read"]
