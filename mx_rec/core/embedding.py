"""Tables and lookups."""
from ascpipe.tf.lookup import sparse_lookup
from ascpipe.tf.table import create_table

__all__ = ["create_table", "sparse_lookup"]
