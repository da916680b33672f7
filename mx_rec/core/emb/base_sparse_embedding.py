"""The table class, for annotations and ``isinstance``."""
from ascpipe.tf.graph.sparse_table import Table as BaseSparseEmbedding

__all__ = ["BaseSparseEmbedding"]
