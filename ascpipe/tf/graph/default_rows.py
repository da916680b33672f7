"""Default rows for positions of a batch that have no row: missing ones of sparse ids, and keys not admitted."""
from typing import Optional, Union

import tensorflow as tf

#: Ids of which some places of their dense form have none.
SparseIds = Union[tf.SparseTensor, tf.RaggedTensor]


def dense_restore(restore: tf.Tensor, ids: SparseIds) -> tf.Tensor:
    """The restore index of sparse ids in the shape of their dense form, with -1 where they have none.

    Args:
        restore: int32[n], that of the values.
        ids: of the same batch.
    """
    sparse = _as_sparse(ids)
    index = tf.scatter_nd(sparse.indices, tf.reshape(restore, [-1]) + 1, sparse.dense_shape) - 1
    index.set_shape(sparse.shape)
    return index


def dense_rows(rows: tf.Tensor, ids: SparseIds, default_row: Optional[tf.Tensor]) -> tf.Tensor:
    """Rows of sparse ids in the shape of their dense form.

    Args:
        rows: float[n, dim], those of the values.
        ids: of the same batch.
        default_row: float, [] or [dim]: what stands where there is no id; None: zeros.
    """
    sparse = _as_sparse(ids)
    shape = tf.concat([sparse.dense_shape, [rows.shape[-1].value]], axis=0)
    dense = tf.scatter_nd(sparse.indices, rows, shape)
    dense.set_shape(sparse.shape.concatenate(rows.shape[-1:]))
    if default_row is None:
        return dense
    present = tf.scatter_nd(sparse.indices, tf.ones_like(sparse.indices[:, 0]), sparse.dense_shape)
    return tf.where_v2(tf.expand_dims(tf.equal(present, 0), -1), default_row, dense)


def _as_sparse(ids: SparseIds) -> tf.SparseTensor:
    return ids.to_sparse() if isinstance(ids, tf.RaggedTensor) else ids


def with_default_row(rows: tf.Tensor, slots: tf.Tensor, restore: tf.Tensor, default_row: tf.Tensor) -> tf.Tensor:
    """Rows in training, with ``default_row`` in the place of each that is missing or was not admitted.

    Args:
        rows: float[..., dim], as looked up.
        slots: int32[keys], -1 for a key that was not admitted.
        restore: int32[...], -1 for a missing position.
        default_row: float, [] or [dim].
    """
    slots = tf.concat([slots, [-1]], axis=0)  # the last one stands for missing positions
    place = tf.where_v2(restore < 0, tf.size(slots) - 1, restore)
    missing = tf.equal(tf.gather(slots, place), -1)
    return tf.where_v2(tf.expand_dims(missing, -1), default_row, rows)
