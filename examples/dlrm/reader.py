"""Reader of Criteo files: ``asc.data.read``, and a map over whole batches.

A batch is a dict: ``label`` float32[B], ``dense`` float32[B, 13], and ``C1`` to ``C26``, one int64[B] of keys per
field. The upper bits of a key are the number of its field, so that the fields can share one table.
"""
from typing import Any, Dict

from examples.dlrm import criteo
from examples.dlrm.quiet import tf

Batch = Dict[str, tf.Tensor]

#: a field's keys are ``(field << FIELD_SHIFT) + number``; the number of an empty value is MISSING, above every 32-bit
#: number
FIELD_SHIFT = 33
MISSING = 1 << 32

_NUMBERS = ["I{}".format(number) for number in range(1, criteo.DENSE_COUNT + 1)]


def dataset(path: str, batch_size: int, **settings: Any) -> tf.data.Dataset:
    """Return the batches of a file.

    With several ranks, each rank gets its part of each batch of all ranks.

    Args:
        path: path of a file that ``criteo.split`` has written.
        batch_size: rows of a batch of this rank.
        settings: other arguments of ``asc.data.read``.
    """
    import ascpipe.tf as asc

    features = {criteo.LABEL: tf.io.FixedLenFeature([], tf.float32)}
    features.update((name, tf.io.FixedLenFeature([], tf.int64, 0)) for name in _NUMBERS)
    features.update((field, tf.io.FixedLenFeature([], tf.int64, MISSING)) for field in criteo.FIELDS)
    batches = asc.data.read(path, features, batch_size, format="criteo", **settings)

    # The function has no Python control flow, and its conversion by tf.data would cost seconds.
    @tf.autograph.experimental.do_not_convert
    def prepared(batch: Batch) -> Batch:
        numbers = tf.stack([batch.pop(name) for name in _NUMBERS], axis=1)
        for number, field in enumerate(criteo.FIELDS):
            batch[field] += number << FIELD_SHIFT
        label = batch[criteo.LABEL]
        with tf.control_dependencies([tf.debugging.Assert(
                tf.reduce_all(tf.equal(label, 0) | tf.equal(label, 1)), ["a label is neither 0 nor 1"])]):
            batch[criteo.DENSE] = tf.math.log1p(tf.cast(tf.maximum(numbers, 0), tf.float32))
        return batch

    return batches.map(prepared)
