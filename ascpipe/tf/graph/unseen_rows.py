"""Initial rows for keys without a row, as a TensorFlow variable would hold them."""
import enum
from typing import Any, Dict

import tensorflow as tf

from ascpipe.tf.graph.ids import as_keys
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.running import native
from ascpipe.tf.running.shapes import NO_TABLE, TableShape


class Unseen(enum.Enum):
    """Row that a lookup returns for a key without a row, in evaluation and in exported models.

    Attributes:
        DEFAULT_ROW: zeros, or the numbers that the program passed as the default.
        INITIAL: the initial row of the key.
        INITIAL_UNLESS_ADMITTING: the initial row, or zeros if the table has an access threshold. The thresholds that
            are known when the pipeline starts decide.
    """

    DEFAULT_ROW = "default"
    INITIAL = "initial"
    INITIAL_UNLESS_ADMITTING = "initial unless admitting"


def with_initial_rows(table: Table, rows: tf.Tensor, keys: tf.Tensor, slots: tf.Tensor,
                      restore: tf.Tensor) -> tf.Tensor:
    """Return the rows of keys in evaluation, with the initial row for a key without a row. There is no gradient.

    Args:
        table: of the rows. Where a pipeline runs, the initial rows are those that the table gives to new keys there,
            also after a restore; else those of its initializer.
        rows: float32, the shape of the keys followed by dim; of keys without a row, whatever it is.
        keys: integers of any shape.
        slots: int32[distinct keys], of the plan; -1 for a key without a row.
        restore: int32 of the shape of the keys, places in ``slots``; -1 where there is no key: the row there stays.

    Returns:
        float32 of the shape of ``rows``.

    Raises:
        ValueError: shapes that do not fit.
    """
    with tf.name_scope("with_initial_rows"), tf.device("/device:CPU:0"):
        return tf.stop_gradient(native.ops().asc_lookup_with_initial_rows(
            rows=rows, keys=as_keys(keys), slots=slots, restore=restore, **_arguments(table.shape)))


def initial_where_missing(shape: TableShape, rows: tf.Tensor, keys: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
    """The same for a table that is described by ``shape``; ``found``: bool, whether each key has a row."""
    with tf.name_scope("with_initial_rows"), tf.device("/device:CPU:0"):
        return tf.stop_gradient(native.ops().asc_with_initial_rows(
            rows=rows, keys=as_keys(keys), found=found, **_arguments(shape)))


def _arguments(shape: TableShape) -> Dict[str, Any]:
    """What describes the initial rows of a table to an op."""
    # A table of the pipeline has its pool there, which a restore may have replaced.
    pool = shape.pool if shape.number == NO_TABLE else None
    return {"parameters": tf.constant([shape.a, shape.b, shape.scale], tf.float64),
            "pool": tf.zeros([0, shape.dim]) if pool is None else tf.constant(pool, tf.float32), "dim": shape.dim,
            "seed": _signed(shape.seed), "kind": shape.kind, "table": shape.number}


def _signed(seed: int) -> int:
    """The 64 bits of a seed as an attribute of an op holds them."""
    return seed - (1 << 64) if seed >= 1 << 63 else seed
