"""Reader of Criteo files with tf.data. It converts text lines to batches of tensors without Python per row.

A batch is a dict: ``label`` float32[B], ``dense`` float32[B, 13], and ``C1`` to ``C26``, one int64[B] of keys per
field. The upper bits of a key are the number of its field, so that the fields can share one table.
"""
from typing import Dict

import numpy as np

from examples.dlrm import criteo
from examples.dlrm.quiet import tf

Batch = Dict[str, tf.Tensor]

#: a field's keys are ``field << FIELD_SHIFT | id``; the id of an empty value is MISSING, above every 32-bit id
FIELD_SHIFT = 33
MISSING = 1 << 32

BLOCK_LINES = 256 * criteo.HELD_OUT_EVERY  #: lines that are split at a time into training and held-out lines

#: these functions have no Python control flow, and their conversion by tf.data would cost seconds
plain_graph = tf.autograph.experimental.do_not_convert

_HEX_DIGITS = 8
_NOT_HEX = -(1 << 40)  #: so negative that any sum of digits with it is negative


def _digit_values() -> np.ndarray:
    """Return int64[256]: the value of each hexadecimal digit by its byte."""
    values = np.full(256, _NOT_HEX, np.int64)
    for value, letters in enumerate("0123456789abcdef"):
        for letter in {letters, letters.upper()}:
            values[ord(letter)] = value
    return values


def dataset(
        path: str, *, held_out: bool, batch_size: int, epochs: int = 1, drop_remainder: bool = False,
        ranks: int = 1, rank: int = 0) -> tf.data.Dataset:
    """Return batches of the training rows or of the held-out rows of a file.

    Args:
        path: path of a file that ``criteo.count_lines`` has accepted.
        held_out: False for the training rows, True for the rows for evaluation, which are every tenth line.
        batch_size: rows of a batch.
        epochs: number of passes over the rows. -1 is endless.
        drop_remainder: whether to drop a partial last batch, so that shapes are static.
        ranks, rank: of every ``ranks`` consecutive batches, only batch ``rank`` is read.
    """
    @plain_graph
    def wanted(block: tf.Tensor) -> tf.Tensor:
        # A block starts at a multiple of HELD_OUT_EVERY lines, so the position in the block suffices.
        last = tf.equal(tf.range(tf.size(block)) % criteo.HELD_OUT_EVERY, criteo.HELD_OUT_EVERY - 1)
        return tf.boolean_mask(block, last if held_out else tf.logical_not(last))

    # Lines are filtered in blocks, because a filter per line costs a hundred microseconds per row.
    lines = tf.data.TextLineDataset(path, buffer_size=1 << 20).batch(BLOCK_LINES).map(wanted).unbatch()
    return lines.repeat(epochs).batch(batch_size, drop_remainder=drop_remainder).shard(ranks, rank).map(parse)


@plain_graph
def parse(lines: tf.Tensor) -> Batch:
    """Return the tensors of some lines.

    The step fails with InvalidArgumentError if a line has a wrong number of columns or an invalid value.
    ``criteo.explain`` then reports the line.

    Args:
        lines: string[B].
    """
    wanted = [tf.constant([], tf.int32)]  # the label must not be empty
    wanted += [tf.constant([0], tf.int64)] * criteo.DENSE_COUNT
    wanted += [tf.constant([""], tf.string)] * criteo.FIELD_COUNT
    columns = tf.io.decode_csv(lines, wanted, field_delim="\t", use_quote_delim=False)
    label = columns[0]
    with tf.control_dependencies([tf.debugging.Assert(
            tf.reduce_all((label >= 0) & (label <= 1)), ["a label is neither 0 nor 1"])]):
        label = tf.cast(label, tf.float32)
    numbers = tf.stack(columns[1:1 + criteo.DENSE_COUNT], axis=1)
    ids = hex_ids(tf.stack(columns[1 + criteo.DENSE_COUNT:], axis=0))
    fields = tf.range(criteo.FIELD_COUNT, dtype=tf.int64)[:, tf.newaxis]
    keys = tf.unstack(ids + fields * (1 << FIELD_SHIFT))
    batch = {criteo.LABEL: label, criteo.DENSE: tf.math.log1p(tf.cast(tf.maximum(numbers, 0), tf.float32))}
    batch.update(zip(criteo.FIELDS, keys))
    return batch


def hex_ids(texts: tf.Tensor) -> tf.Tensor:
    """Return numbers that are written as 8 hexadecimal digits. The number of an empty text is MISSING.

    Args:
        texts: string of any shape.

    Returns:
        int64 of the same shape, 0 to 2**32 (MISSING).
    """
    missing = tf.equal(texts, "")
    filled = tf.where(missing, tf.fill(tf.shape(texts), "0" * _HEX_DIGITS), texts)
    right_length = tf.debugging.Assert(
        tf.reduce_all(tf.equal(tf.strings.length(filled), _HEX_DIGITS)), ["a categorical value has not 8 digits"])
    with tf.control_dependencies([right_length]):
        characters = tf.cast(tf.io.decode_raw(filled, tf.uint8), tf.int32)
    characters.set_shape(texts.shape.concatenate(_HEX_DIGITS))
    digits = tf.gather(tf.constant(_digit_values()), characters)
    powers = tf.constant([16 ** power for power in reversed(range(_HEX_DIGITS))], tf.int64)
    numbers = tf.reduce_sum(digits * powers, axis=-1)
    with tf.control_dependencies([tf.debugging.Assert(
            tf.reduce_all(numbers >= 0), ["a categorical value is not hexadecimal"])]):
        return tf.where(missing, tf.fill(tf.shape(numbers), tf.constant(MISSING, tf.int64)), numbers)
