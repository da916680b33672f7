"""Dense variables and table variables."""
from ascpipe.tf.incumbent.getters_and_setters import get_dense_and_sparse_variable

__all__ = ["get_dense_and_sparse_variable"]
