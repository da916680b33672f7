"""Tables, lookups and features."""
from ascpipe.tf.program.create_table import create_table
from ascpipe.tf.program.sparse_lookup import sparse_lookup

__all__ = ["create_table", "sparse_lookup"]
