"""Initial rows for keys without a row. In a program without ascpipe, a variable contains the initial rows of all keys
from the start.
"""
import enum
from typing import Any, Dict

import tensorflow as tf

from ascpipe.tf.graph.ids import as_keys
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.running import native
from ascpipe.tf.running.shapes import NO_TABLE, TableShape


class Unseen(enum.Enum):
    """Kind of result that evaluation and exported models return for a key without a row.

    Attributes:
        DEFAULT_ROW: the program's default value, or zeros if there is no default value.
        INITIAL: the initial row of the key.
        INITIAL_UNLESS_ADMITTING: zeros if the table has an access threshold when the pipeline starts. Otherwise, the
            initial row of the key.
    """

    DEFAULT_ROW = "default"
    INITIAL = "initial"
    INITIAL_UNLESS_ADMITTING = "initial unless admitting"


def with_initial_rows(table: Table, rows: tf.Tensor, keys: tf.Tensor, slots: tf.Tensor,
                      restore: tf.Tensor) -> tf.Tensor:
    """Return the rows of an evaluation lookup. Keys without a row get initial rows. The result has no gradient.

    Args:
        table: table of the rows. If its pipeline runs, the initial rows are the same as for new keys in the pipeline,
            even after a restore. Otherwise, the table's initializer computes the initial rows.
        rows: float32, with the shape of the keys followed by dim. Values for keys without a row are ignored.
        keys: integers of any shape.
        slots: int32[distinct keys], slots from the plan. The slot of a key without a row is -1.
        restore: int32 with the shape of the keys, positions in ``slots``. -1 means that there is no key, so the row is
            unchanged.

    Returns:
        float32 with the shape of ``rows``.

    Raises:
        ValueError: the shapes are incompatible.
    """
    with tf.name_scope("with_initial_rows"), tf.device("/device:CPU:0"):
        return tf.stop_gradient(native.ops().asc_lookup_with_initial_rows(
            rows=rows, keys=as_keys(keys), slots=slots, restore=restore, **_arguments(table.shape)))


def initial_where_missing(shape: TableShape, rows: tf.Tensor, keys: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
    """Return a copy of ``rows`` with the initial row for each key whose item in ``found`` is False."""
    with tf.name_scope("with_initial_rows"), tf.device("/device:CPU:0"):
        return tf.stop_gradient(native.ops().asc_with_initial_rows(
            rows=rows, keys=as_keys(keys), found=found, **_arguments(shape)))


def _arguments(shape: TableShape) -> Dict[str, Any]:
    # If the table has a pipeline, the op reads the pool from the pipeline, because a restore may have replaced the
    # pool.
    pool = shape.pool if shape.number == NO_TABLE else None
    return {"parameters": tf.constant([shape.a, shape.b, shape.scale], tf.float64),
            "pool": tf.zeros([0, shape.dim]) if pool is None else tf.constant(pool, tf.float32), "dim": shape.dim,
            "seed": _signed(shape.seed), "kind": shape.kind, "table": shape.number}


def _signed(seed: int) -> int:
    return seed - (1 << 64) if seed >= 1 << 63 else seed
