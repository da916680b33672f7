"""Conversion of texts to keys, with the hash function that programs use (docs/tutorial/from-tensorflow.md#text-as-ids).
"""
from typing import List

import numpy as np
import tensorflow as tf

_BUCKETS = 2 ** 63 - 1
_AT_A_TIME = 1 << 16


def keys_of_texts(texts: List[str]) -> np.ndarray:
    """Return ``tf.strings.to_hash_bucket_fast(text, 2 ** 63 - 1)`` of each text, as int64[n]."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        given = tf.compat.v1.placeholder(tf.string, [None])
        keys = tf.strings.to_hash_bucket_fast(given, _BUCKETS)
        found = [session.run(keys, {given: texts[first:first + _AT_A_TIME]})
                 for first in range(0, len(texts), _AT_A_TIME)]
    return np.concatenate([np.empty(0, np.int64), *found])
