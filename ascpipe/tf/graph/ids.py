"""Common representation of dense, sparse and ragged ids: the values, and the positions of the values.

Sparse and ragged ids can be converted to a dense form. Some positions of the dense form have no id.
"""
import dataclasses
import logging
from typing import Optional, Set, Union

import tensorflow as tf

_log = logging.getLogger(__name__)

#: Float dtype -> the largest b for which the dtype can represent all integers up to 2^b.
_EXACT_BITS = {tf.float16: 11, tf.bfloat16: 8, tf.float32: 24, tf.float64: 53}

#: Float dtypes of ids for which a warning was already logged.
_warned_dtypes: Set[str] = set()

SparseIds = Union[tf.SparseTensor, tf.RaggedTensor]

GivenIds = Union[tf.Tensor, SparseIds]


@dataclasses.dataclass(frozen=True, eq=False)
class Ids:
    """Ids of a lookup.

    Attributes:
        given: the tensor that the program passed.
        values: for dense ids, the tensor ``given``. For sparse ids, a tensor [n]. For ragged ids, a tensor [n, ...]
            with uniform inner dimensions.
    """

    given: GivenIds
    values: tf.Tensor

    @staticmethod
    def of(given: GivenIds) -> "Ids":
        """Return the ``Ids`` object for a tensor of the program."""
        if isinstance(given, tf.SparseTensor):
            return Ids(given, given.values)
        return Ids(given, given.flat_values if isinstance(given, tf.RaggedTensor) else given)

    @property
    def is_dense(self) -> bool:
        """Return whether the ids are a dense tensor."""
        return self.values is self.given

    @property
    def is_ragged(self) -> bool:
        """Return whether the ids are a RaggedTensor."""
        return isinstance(self.given, tf.RaggedTensor)

    @property
    def places(self) -> tf.Tensor:
        """Return the positions of the values.

        For ragged ids: row splits, int64[rows + 1]. For sparse ids: indices, int64[n, rank].
        """
        return tf.cast(self.given.row_splits, tf.int64) if self.is_ragged else self.given.indices

    def dense_restore(self, restore: tf.Tensor) -> tf.Tensor:
        """Return the restore index of the ids in dense form, with -1 at positions without an id.

        ``restore`` is the restore index of the values, int32[n].
        """
        sparse = self._sparse()
        index = tf.scatter_nd(sparse.indices, tf.reshape(restore, [-1]) + 1, sparse.dense_shape) - 1
        index.set_shape(sparse.shape)
        return index

    def dense_keys(self) -> tf.Tensor:
        """Return the ids in dense form, with 0 at positions without an id."""
        sparse = self._sparse()
        return tf.scatter_nd(sparse.indices, as_keys(sparse.values), sparse.dense_shape)

    def dense_rows(self, rows: tf.Tensor, default_row: Optional[tf.Tensor]) -> tf.Tensor:
        """Return the rows of the ids in dense form.

        Args:
            rows: float[n, dim], one row per value.
            default_row: float, [] or [dim], for positions without an id. None means zeros.
        """
        sparse = self._sparse()
        shape = tf.concat([sparse.dense_shape, [rows.shape[-1].value]], axis=0)
        dense = tf.scatter_nd(sparse.indices, rows, shape)
        dense.set_shape(sparse.shape.concatenate(rows.shape[-1:]))
        if default_row is None:
            return dense
        present = tf.scatter_nd(sparse.indices, tf.ones_like(sparse.indices[:, 0]), sparse.dense_shape)
        return tf.compat.v2.where(tf.expand_dims(tf.equal(present, 0), -1), default_row, dense)

    def _sparse(self) -> tf.SparseTensor:
        return self.given.to_sparse() if self.is_ragged else self.given


def are_ids(dtype: tf.DType) -> bool:
    """Return True if tensors of a dtype can be ids.

    Floats are allowed as well as integers, because string ops return floats by default.
    """
    return bool(dtype.is_integer) or dtype in _EXACT_BITS


def as_keys(ids: tf.Tensor) -> tf.Tensor:
    """Return ids as int32 or int64. Floats are truncated, and one warning is logged per float dtype."""
    if ids.dtype in (tf.int32, tf.int64):
        return ids
    if ids.dtype in _EXACT_BITS and ids.dtype.name not in _warned_dtypes:
        _warned_dtypes.add(ids.dtype.name)
        _log.warning("ids %r are %s and are cast to int64. Above 2^%d, %s cannot represent every integer, so "
                     "different keys may become equal. Use integer ids, for example tf.strings.to_number(..., "
                     "out_type=tf.int64)",
                     ids.name, ids.dtype.name, _EXACT_BITS[ids.dtype], ids.dtype.name)
    return tf.cast(ids, tf.int64)
