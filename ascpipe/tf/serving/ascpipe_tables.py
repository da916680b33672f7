"""Exported tables whose lookups are ops of ascpipe, which read table files."""
from typing import List, Optional, Tuple

import tensorflow as tf

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.table_file import SUFFIX, write_table_file
from ascpipe.tf.graph import bags
from ascpipe.tf.graph.ids import Ids
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.unseen_rows import initial_where_missing
from ascpipe.tf.running import native
from ascpipe.tf.running.shapes import TableShape
from ascpipe.tf.serving.served_tables import ServedTables, Written


class AscpipeTables(ServedTables):
    """Implementation of ``ServedTables`` with ops of ascpipe."""

    def combined(self, table_name: str, rows: tf.Tensor, ids: Ids, weights: Optional[Ids], combiner: str,
                 max_norm: Optional[float]) -> tf.Tensor:
        """Return one row for each bag of ids. The op AscCombine combines the rows."""
        return bags.combined(rows, bags.bags_of(table_name, ids, weights), combiner, max_norm)

    def _write_files(self, checkpoint: Checkpoint, table: Table) -> Written:
        name = table.table_name + SUFFIX
        directory = disk.open_directory(self._folder)
        try:
            file = write_table_file(checkpoint, table.table_name, directory, name)
        finally:
            disk.close(directory)
        return Written(file.rows, file.seal, (name,))

    def _open(self, table: Table, paths: List[tf.Tensor], file: Written) -> Tuple[tf.Tensor, List[tf.Operation]]:
        # The shared name identifies the content, because one session may load several SavedModels.
        handle = native.ops().asc_served_table(
            shared_name="ascpipe/{}/{}-{:08x}".format(table.table_name, file.rows, file.seal))
        return handle, [native.ops().asc_open_served_table(table=handle, path=paths[0], seal=file.seal)]

    def _rows(self, opened: tf.Tensor, keys: tf.Tensor, default_row: tf.Tensor, dim: int,
              initial: Optional[TableShape]) -> tf.Tensor:
        arguments = {"table": opened, "keys": keys, "default_row": default_row, "dim": dim}
        if initial is None:
            return native.ops().asc_served_lookup(**arguments)
        found = native.ops().asc_served_lookup_found(**arguments)
        return initial_where_missing(initial, found.rows, keys, found.found)

    def _dense(self, rows: tf.Tensor, ids: Ids, default_row: tf.Tensor) -> tf.Tensor:
        places = tf.range(tf.shape(rows)[0])
        restore = ids.dense_restore(places)
        dense, = native.ops().asc_restore_rows(local=rows, places=places, restore=[restore], default_row=default_row)
        return dense
