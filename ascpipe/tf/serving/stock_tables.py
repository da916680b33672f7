"""Exported tables whose lookups are ops of TensorFlow.

Keys and rows are read into memory when the model is loaded. A hash table maps keys to row numbers. The rows are in a
local variable, whose initializer reads the files.
"""
import re
from typing import List, NamedTuple, Optional, Tuple

import tensorflow as tf

from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.tf.graph import bags
from ascpipe.tf.graph.ids import Ids
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.running.shapes import TableShape
from ascpipe.tf.serving.served_tables import Files, ServedTables, Written
from ascpipe.tf.serving.stock_files import INDEX, names_of, require_stock_ops, write_stock_files
from ascpipe.tf.serving.stock_initial_rows import initial_rows


class OpenedTable(NamedTuple):
    """Ops and variables of an exported table.

    Attributes:
        numbers: handle of the hash table from keys to row numbers.
        rows: variables with the tensors of ``names_of``.
        size: number of keys. The row with this number contains zeros.
    """

    numbers: tf.Tensor
    rows: List[tf.Variable]
    size: int


class StockTables(ServedTables):
    """Implementation of ``ServedTables`` with ops of TensorFlow.

    Args:
        dtype: dtype of the rows in the files and in memory, one of ``stock_files.DTYPES``.
    """

    def __init__(self, prefix: str, folder: str, files: Files, dtype: str) -> None:
        super().__init__(prefix, folder, files)
        self._dtype = dtype

    def combined(self, table_name: str, rows: tf.Tensor, ids: Ids, weights: Optional[Ids], combiner: str,
                 max_norm: Optional[float]) -> tf.Tensor:
        """Return one row for each bag of ids, as ``tf.nn.embedding_lookup_sparse`` does.

        The result for an empty bag is zeros.
        """
        bags.require_bags(table_name, ids, weights)
        if max_norm is not None:
            rows = tf.clip_by_norm(rows, max_norm, axes=[1])
        given = ids.given
        count = given.nrows() if ids.is_ragged else given.dense_shape[0]
        bag = tf.cast(given.value_rowids() if ids.is_ragged else given.indices[:, 0], tf.int32)
        if weights is None:
            combine = {"sum": tf.sparse.segment_sum, "mean": tf.sparse.segment_mean,
                       "sqrtn": tf.sparse.segment_sqrt_n}[combiner]
            result = combine(rows, tf.range(tf.size(bag)), bag, num_segments=count)
        else:
            result = _weighted(rows, bag, count, _checked_weights(table_name, ids, weights), combiner)
        result.set_shape([given.shape[0], rows.shape[-1]])
        return result

    def check(self, graph: tf.Graph) -> None:
        require_stock_ops(graph.as_graph_def())

    def _write_files(self, checkpoint: Checkpoint, table: Table) -> Written:
        return write_stock_files(checkpoint, table.table_name, self._folder, self._dtype)

    def _open(self, table: Table, paths: List[tf.Tensor], file: Written) -> Tuple[OpenedTable, List[tf.Operation]]:
        names = names_of(self._dtype)
        stem = tf.strings.regex_replace(paths[0], re.escape(INDEX) + "$", "")
        seal, keys, *rows = tf.raw_ops.RestoreV2(
            prefix=stem, tensor_names=["seal", "keys", *names], shape_and_slices=[""] * (2 + len(names)),
            dtypes=["int64", "int64", self._dtype, "float32"][:2 + len(names)])
        # The names identify the content, because one session may load several SavedModels.
        content = "{}-{:08x}".format(file.rows, file.seal)
        is_same = tf.debugging.Assert(tf.equal(seal, file.seal), [
            "Table {}: the files in the assets are of another export. Copy the whole SavedModel again. File and seal:"
            .format(table.table_name), paths[0], seal])
        numbers = tf.raw_ops.HashTableV2(
            key_dtype=tf.int64, value_dtype=tf.int64, shared_name="ascpipe/{}/{}".format(table.table_name, content))
        with tf.control_dependencies([is_same]):
            keys, *rows = [tf.identity(each) for each in (keys, *rows)]
        shapes = [[file.rows + 1, table.emb_size], [file.rows + 1]]
        variables = [_variable(name + "-" + content, tensor, shape)
                     for name, tensor, shape in zip(names, rows, shapes)]
        filled = tf.raw_ops.InitializeTableV2(
            table_handle=numbers, keys=keys, values=tf.range(tf.size(keys, out_type=tf.int64)))
        return OpenedTable(numbers, variables, file.rows), [filled, *(each.initializer for each in variables)]

    def _rows(self, opened: OpenedTable, keys: tf.Tensor, default_row: tf.Tensor, dim: int,
              initial: Optional[TableShape]) -> tf.Tensor:
        flat = tf.cast(tf.reshape(keys, [-1]), tf.int64)
        count = tf.constant(opened.size, tf.int64)
        number = tf.raw_ops.LookupTableFindV2(table_handle=opened.numbers, keys=flat, default_value=count)
        number.set_shape(flat.shape)
        rows = tf.cast(tf.gather(opened.rows[0], number), tf.float32)
        if len(opened.rows) > 1:
            rows *= tf.expand_dims(tf.gather(opened.rows[1], number), 1)
        if initial is not None or not _is_zero(default_row):
            missing = tf.where(tf.equal(number, count))

            def values() -> tf.Tensor:
                if initial is None:
                    return tf.broadcast_to(default_row, [tf.shape(missing)[0], dim])
                return initial_rows(initial, tf.gather_nd(flat, missing))

            # Without tf.cond, the many ops that compute initial rows would run even if no key is missing.
            rows = tf.cond(tf.equal(tf.size(missing), 0), lambda: rows,
                           lambda: tf.tensor_scatter_nd_update(rows, missing, values()))
        rows = tf.reshape(rows, tf.concat([tf.shape(keys), [dim]], axis=0))
        rows.set_shape(keys.shape.concatenate([dim]))
        return rows

    def _dense(self, rows: tf.Tensor, ids: Ids, default_row: tf.Tensor) -> tf.Tensor:
        count = tf.shape(rows)[0]
        restore = ids.dense_restore(tf.range(count))
        default = tf.broadcast_to(default_row, tf.concat([[1], tf.shape(rows)[1:]], axis=0))
        place = tf.compat.v2.where(restore < 0, tf.fill(tf.shape(restore), count), restore)
        return tf.gather(tf.concat([rows, default], axis=0), place)


def _variable(name: str, initial: tf.Tensor, shape: List[int]) -> tf.Variable:
    initial.set_shape(shape)
    return tf.compat.v1.Variable(initial, name=name, trainable=False, use_resource=True,
                                 collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES])


def _is_zero(row: tf.Tensor) -> bool:
    """Return whether a row is known to contain only zeros with positive sign."""
    value = tf.get_static_value(row)
    return value is not None and not value.tobytes().strip(b"\0")


def _checked_weights(table_name: str, ids: Ids, weights: Ids) -> tf.Tensor:
    """Return the values of weights. Computing these values fails if the positions of weights and ids differ."""
    if weights.places is ids.places:
        return weights.values
    with tf.control_dependencies([tf.compat.v1.assert_equal(
            weights.places, ids.places, message="Table {!r}: the weights have other positions than the ids".format(
                table_name))]):
        return tf.identity(weights.values)


def _weighted(rows: tf.Tensor, bag: tf.Tensor, count: tf.Tensor, weights: tf.Tensor, combiner: str) -> tf.Tensor:
    def summed(values: tf.Tensor) -> tf.Tensor:
        return tf.math.unsorted_segment_sum(values, bag, count)

    total = summed(rows * tf.expand_dims(weights, 1))
    if combiner == "sum":
        return total
    divisor = summed(weights) if combiner == "mean" else tf.sqrt(summed(weights * weights))
    is_empty = tf.equal(summed(tf.ones_like(weights)), 0)
    return total / tf.expand_dims(tf.compat.v2.where(is_empty, tf.ones_like(divisor), divisor), 1)
