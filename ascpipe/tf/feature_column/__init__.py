"""``ascpipe.tf.feature_column``, feature columns whose embeddings and weights are in tables.

``ascpipe.tf.use_for_feature_columns`` supports TensorFlow's columns.
"""
from ascpipe.tf.feature_column.columns import (
    categorical_column_with_int64,
    embedding_column,
    linear_weights,
    shared_embedding_columns,
)

__all__ = ["categorical_column_with_int64", "embedding_column", "linear_weights", "shared_embedding_columns"]
