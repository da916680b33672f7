"""Decides which tensors are ids, and casts them to keys."""
import logging
from typing import Set

import tensorflow as tf

_log = logging.getLogger(__name__)

#: Up to which number a float dtype has every integer.
_EXACT_BITS = {tf.float16: 11, tf.bfloat16: 8, tf.float32: 24, tf.float64: 53}

_warned: Set[str] = set()


def are_ids(dtype: tf.DType) -> bool:
    """Whether tensors of a dtype can be ids: integers, and floats, as string ops give them by default."""
    return bool(dtype.is_integer) or dtype in _EXACT_BITS


def as_keys(ids: tf.Tensor) -> tf.Tensor:
    """Ids as ops take them: int32 or int64. Floats are cut to integers, with one warning for each dtype."""
    if ids.dtype in (tf.int32, tf.int64):
        return ids
    if ids.dtype in _EXACT_BITS and ids.dtype.name not in _warned:
        _warned.add(ids.dtype.name)
        _log.warning("ids %r are %s: they are cast to int64. Beyond 2^%d not every integer is a %s, so different keys "
                     "may become one; make ids integers, as by tf.strings.to_number(..., out_type=tf.int64)",
                     ids.name, ids.dtype.name, _EXACT_BITS[ids.dtype], ids.dtype.name)
    return tf.cast(ids, tf.int64)
