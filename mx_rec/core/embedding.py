"""Tables and lookups."""
from ascpipe.tf.graph.sparse_table import Table as BaseSparseEmbedding
from ascpipe.tf.program.create_table import create_table
from ascpipe.tf.program.sparse_lookup import sparse_lookup

__all__ = ["BaseSparseEmbedding", "create_table", "sparse_lookup"]
