"""tf.data over a Criteo file: text lines to batches of tensors, without Python per row.

A batch is a dict: ``label`` float32[B], ``dense`` float32[B, 13] and one int64[B] of keys per field, ``C1`` to
``C26``. A key carries its field in the upper bits, so that the fields may share one table.
"""
from typing import Dict

import numpy as np

from examples.dlrm import criteo
from examples.dlrm.quiet import tf

Batch = Dict[str, tf.Tensor]

#: a field's keys are ``field << FIELD_SHIFT | id``; the id of an empty value is MISSING, above every 32-bit one
FIELD_SHIFT = 33
MISSING = 1 << 32

BLOCK_LINES = 256 * criteo.HELD_OUT_EVERY  #: lines that are split into trained and held-out ones at a time

#: these functions have no Python control flow; converting them would take tf.data seconds
plain_graph = tf.autograph.experimental.do_not_convert

_HEX_DIGITS = 8
_NOT_HEX = -(1 << 40)  #: so negative that no sum of digits can hide it


def _digit_values() -> np.ndarray:
    """int64[256]: value of each hexadecimal digit by its byte."""
    values = np.full(256, _NOT_HEX, np.int64)
    for value, letters in enumerate("0123456789abcdef"):
        for letter in {letters, letters.upper()}:
            values[ord(letter)] = value
    return values


def dataset(
        path: str, *, held_out: bool, batch_size: int, epochs: int = 1, drop_remainder: bool = False,
        ranks: int = 1, rank: int = 0) -> tf.data.Dataset:
    """Batches of the training rows of a file, or of its held-out rows.

    Args:
        path: a file that ``criteo.count_lines`` has accepted.
        held_out: False for the rows to train, True for every tenth line, the ones to evaluate.
        batch_size: rows of a batch.
        epochs: times the rows are read, -1 for without end.
        drop_remainder: leave out a last batch that is not full, so that shapes are static.
        ranks, rank: of ``ranks`` batches one behind the other, only number ``rank`` is read.
    """
    @plain_graph
    def wanted(block: tf.Tensor) -> tf.Tensor:
        # A block starts at a multiple of HELD_OUT_EVERY lines, so the place in the block decides.
        last = tf.equal(tf.range(tf.size(block)) % criteo.HELD_OUT_EVERY, criteo.HELD_OUT_EVERY - 1)
        return tf.boolean_mask(block, last if held_out else tf.logical_not(last))

    # Blocks, because a filter line by line costs a hundred microseconds a row.
    lines = tf.data.TextLineDataset(path, buffer_size=1 << 20).batch(BLOCK_LINES).map(wanted).unbatch()
    return lines.repeat(epochs).batch(batch_size, drop_remainder=drop_remainder).shard(ranks, rank).map(parse)


@plain_graph
def parse(lines: tf.Tensor) -> Batch:
    """Tensors of some lines.

    Args:
        lines: string[B].

    A line with another number of columns, a value that is not a number or not hexadecimal fails the step with
    InvalidArgumentError; ``criteo.explain`` then names the line.
    """
    wanted = [tf.constant([], tf.int32)]  # the label may not be empty
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
    """Numbers written as 8 hexadecimal digits; MISSING for an empty text.

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
