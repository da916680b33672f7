"""Variables of the dense and the sparse part."""
from ascpipe.tf.incumbent.variables import get_dense_and_sparse_variable

__all__ = ["get_dense_and_sparse_variable"]
