"""Ids in one form. Lookups see values and their places, whether a program gave dense, sparse or ragged ids.

Sparse ids have a dense form, of which some places have no id.
"""
import dataclasses
import logging
from typing import Optional, Set, Union

import tensorflow as tf

_log = logging.getLogger(__name__)

#: Up to which number a float dtype has every integer.
_EXACT_BITS = {tf.float16: 11, tf.bfloat16: 8, tf.float32: 24, tf.float64: 53}

#: Names of dtypes that are no integers, of which ids were.
_warned_dtypes: Set[str] = set()

SparseIds = Union[tf.SparseTensor, tf.RaggedTensor]

#: What programs give.
GivenIds = Union[tf.Tensor, SparseIds]


@dataclasses.dataclass(frozen=True, eq=False)
class Ids:
    """Ids of a lookup.

    Attributes:
        given: as the program gave them.
        values: of sparse ones [n], or of ragged ones whose innermost dimensions are uniform [n, ...]; of dense ones
            they themselves.
    """

    given: GivenIds
    values: tf.Tensor

    @staticmethod
    def of(given: GivenIds) -> "Ids":
        """The one form of what a program gives."""
        if isinstance(given, tf.SparseTensor):
            return Ids(given, given.values)
        return Ids(given, given.flat_values if isinstance(given, tf.RaggedTensor) else given)

    @property
    def is_dense(self) -> bool:
        """Whether each place has an id."""
        return self.values is self.given

    @property
    def is_ragged(self) -> bool:
        """Whether rows of ids follow one another, as ``places`` says."""
        return isinstance(self.given, tf.RaggedTensor)

    @property
    def places(self) -> tf.Tensor:
        """Where values are: splits int64[rows + 1] of ragged ids, indices int64[n, rank] of sparse ones."""
        return tf.cast(self.given.row_splits, tf.int64) if self.is_ragged else self.given.indices

    def dense_restore(self, restore: tf.Tensor) -> tf.Tensor:
        """The restore index of the dense form, with -1 where there is no id; ``restore``: int32[n], of the values."""
        sparse = self._sparse()
        index = tf.scatter_nd(sparse.indices, tf.reshape(restore, [-1]) + 1, sparse.dense_shape) - 1
        index.set_shape(sparse.shape)
        return index

    def dense_keys(self) -> tf.Tensor:
        """The keys of the dense form, with 0 where there is no id."""
        sparse = self._sparse()
        return tf.scatter_nd(sparse.indices, as_keys(sparse.values), sparse.dense_shape)

    def dense_rows(self, rows: tf.Tensor, default_row: Optional[tf.Tensor]) -> tf.Tensor:
        """Rows of the dense form.

        Args:
            rows: float[n, dim], one for each value.
            default_row: float, [] or [dim]: what stands where there is no id; None: zeros.
        """
        sparse = self._sparse()
        shape = tf.concat([sparse.dense_shape, [rows.shape[-1].value]], axis=0)
        dense = tf.scatter_nd(sparse.indices, rows, shape)
        dense.set_shape(sparse.shape.concatenate(rows.shape[-1:]))
        if default_row is None:
            return dense
        present = tf.scatter_nd(sparse.indices, tf.ones_like(sparse.indices[:, 0]), sparse.dense_shape)
        return tf.where_v2(tf.expand_dims(tf.equal(present, 0), -1), default_row, dense)

    def _sparse(self) -> tf.SparseTensor:
        return self.given.to_sparse() if self.is_ragged else self.given


def are_ids(dtype: tf.DType) -> bool:
    """Whether tensors of a dtype can be ids: integers, and floats, as string ops give them by default."""
    return bool(dtype.is_integer) or dtype in _EXACT_BITS


def as_keys(ids: tf.Tensor) -> tf.Tensor:
    """Ids as ops take them: int32 or int64. Floats are cut to integers, with one warning for each dtype."""
    if ids.dtype in (tf.int32, tf.int64):
        return ids
    if ids.dtype in _EXACT_BITS and ids.dtype.name not in _warned_dtypes:
        _warned_dtypes.add(ids.dtype.name)
        _log.warning("ids %r are %s: they are cast to int64. Beyond 2^%d not every integer is a %s, so different keys "
                     "may become one; make ids integers, as by tf.strings.to_number(..., out_type=tf.int64)",
                     ids.name, ids.dtype.name, _EXACT_BITS[ids.dtype], ids.dtype.name)
    return tf.cast(ids, tf.int64)
