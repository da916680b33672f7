"""Tables of exported graphs. Lookups of an exported table read files that are written from a checkpoint.

See docs/how-to/saved_models.md. ``exporting.py`` marks the graphs.
"""
import abc
import contextlib
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import tensorflow as tf

from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.errors import CheckpointError, CheckpointMismatchError
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.tree import why
from ascpipe.errors import NotBuiltYetError, ServingError, TableLookupError
from ascpipe.layout.words import TRAIN
from ascpipe.tf.graph.batch_structure import require_ids
from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.graph_state import GraphState, Served
from ascpipe.tf.graph.ids import Ids, are_ids, as_keys
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.rewiring import outside_scopes
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.unseen_rows import Unseen
from ascpipe.tf.running.shapes import TableShape


class Written(NamedTuple):
    """Files of a table that were written to the assets directory.

    Attributes:
        rows: number of keys.
        seal: CRC-32 of the content. The exported graph contains this checksum and compares it with the files.
        names: names of the files.
    """

    rows: int
    seal: int
    names: Tuple[str, ...]


Files = Dict[str, Written]  #: table name -> files that were written for the table


class ServedTables(Served, abc.ABC):
    """Tables of one checkpoint that the lookups of one graph read. The first lookup of a table writes the table's
    files.

    A subclass determines the format of the files and the ops that read the files.

    Args:
        prefix: prefix of the checkpoint, ``dir/base-step``.
        folder: local directory for the files.
        files: existing files in ``folder``.
    """

    def __init__(self, prefix: str, folder: str, files: Files) -> None:
        self._prefix = prefix
        self._folder = folder
        self._files = files
        self._checkpoint: Optional[Checkpoint] = None
        self._opened_tables: Dict[str, Any] = {}
        self._written: List[str] = []
        self._calls = 0
        self._closed = False

    def look_up(self, request: LookupRequest) -> tf.Tensor:
        """Return the rows of ids. The ids of a FeatureSpec are read from ``request.batch``.

        Raises:
            RuntimeError: ``batch`` is missing for a FeatureSpec, or the files were closed.
            KeyError: ``batch`` does not contain the feature.
            ValueError: the ids are not numbers, or a row has a value that cannot be represented in the dtype of the
                export.
            NotBuiltYetError: this is a training lookup.
            CheckpointError: the checkpoint is missing, damaged or unverified, or does not match the table, or the file
                cannot be written.
        """
        table = request.table
        ids = request.ids
        if request.channel == TRAIN:
            raise NotBuiltYetError("asc.sparse_lookup(is_train=True) of table {!r} in a graph that is exported".format(
                table.table_name), "pass is_train=False in all modes but TRAIN, and export those")
        found = ids if not isinstance(ids, FeatureSpec) else require_ids(request.batch, ids, ServingError(
            "FeatureSpec {!r} has no ids in a graph that is exported. Pass batch=, the features that the model "
            "function received".format(ids.label)))
        values = found.values
        if not are_ids(values.dtype):
            raise TableLookupError("Table {!r}: ids {!r} have dtype {}. Pass integers".format(
                table.table_name, values.name, values.dtype.name))
        default_row = tf.zeros([]) if request.default_value is None else request.default_value
        opened = self._opened_table(table)
        shape = self._shape(table) if self._returns_initial_rows(table, request.unseen) else None
        self._calls += 1
        with tf.name_scope("ascpipe/{}_serving".format(table.table_name)), tf.device("/device:CPU:0"):
            rows = self._rows(opened, as_keys(values), default_row, table.emb_size, shape)
            if not found.is_dense:
                rows = self._dense(rows, found, default_row)
        return tf.identity(rows, name=request.name or "sparse_lookup_{}".format(self._calls))

    def dense_path(self, prefix: str) -> str:
        """Return the path of the verified dense part if ``prefix`` is the checkpoint of these tables.

        Otherwise, return ``prefix``.
        """
        if prefix != self._prefix or self._checkpoint is None or self._checkpoint.dense_prefix is None:
            return prefix
        return self._checkpoint.dense_prefix

    def version(self) -> tf.Tensor:
        """Return the training step of the rows as an int64 scalar, or -1 if the checkpoint has no step."""
        step = self._opened().step
        return tf.constant(-1 if step is None else step, tf.int64, name="served_version")

    def check(self, graph: tf.Graph) -> None:
        """Check the complete graph of the model. Raise ``ServingError`` if the graph cannot be served."""

    def discard(self) -> None:
        """Remove the files that were written for this graph. Call this method after a failed export."""
        for name in self._written:
            for file in self._files.pop(name).names:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._folder, file))
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)
        self._written = []

    def close(self) -> None:
        """Close the checkpoint.

        This method may be called repeatedly. Afterwards, the first lookup of another table raises ``RuntimeError``.
        """
        self._closed = True
        if self._checkpoint is not None:
            self._checkpoint.close()

    @abc.abstractmethod
    def _write_files(self, checkpoint: Checkpoint, table: Table) -> Written:
        """Write the files of a table.

        Raises:
            OSError: the files cannot be written. No file remains.
            DamagedCheckpointError: the checkpoint has changed since it was verified.
        """

    @abc.abstractmethod
    def _open(self, table: Table, paths: List[tf.Tensor], file: Written) -> Tuple[Any, List[tf.Operation]]:
        """Create the ops that open the files of a table.

        Args:
            paths: string scalars, the paths of the files. A server replaces them with the paths of its own files.

        Returns:
            The argument of ``_rows``, and the ops that run when the model is loaded.
        """

    @abc.abstractmethod
    def _rows(self, opened: Any, keys: tf.Tensor, default_row: tf.Tensor, dim: int,
              initial: Optional[TableShape]) -> tf.Tensor:
        """Return the rows of keys, float32 with the shape of the keys followed by ``dim``.

        Args:
            opened: result of ``_open``.
            default_row: float32, [] or [dim]. It is the row of a key that is not in the files.
            initial: shape of the table whose initial rows are used instead of ``default_row``, or None.
        """

    @abc.abstractmethod
    def _dense(self, rows: tf.Tensor, ids: Ids, default_row: tf.Tensor) -> tf.Tensor:
        """Return the rows of ids in dense form, with ``default_row`` at positions without an id."""

    def _opened_table(self, table: Table) -> Any:
        """Return the result of ``_open`` for a table. The first call for a table writes the table's files."""
        name = table.table_name
        if name in self._opened_tables:
            return self._opened_tables[name]
        if self._closed:
            raise ServingError("Table {!r}: the block of asc.serving_tables() has ended. Look up and export inside "
                               "the block".format(name))
        if name not in self._files:
            self._files[name] = self._write(table)
            self._written.append(name)
        file = self._files[name]
        graph = tf.compat.v1.get_default_graph()
        with outside_scopes(graph, "ascpipe/{}_table".format(name)):
            paths = [tf.constant(os.path.join(self._folder, each), tf.string, name="path") for each in file.names]
            self._opened_tables[name], openers = self._open(table, paths, file)
        graph.get_collection_ref(tf.compat.v1.GraphKeys.ASSET_FILEPATHS).extend(paths)
        graph.get_collection_ref(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS).extend(openers)
        return self._opened_tables[name]

    def _returns_initial_rows(self, table: Table, unseen: Unseen) -> bool:
        """Return whether lookups return initial rows for keys that are not in the table file.

        This depends on the thresholds in the checkpoint and in this graph.
        """
        if unseen is not Unseen.INITIAL_UNLESS_ADMITTING:
            return unseen is Unseen.INITIAL
        policies = self._opened().tables[table.table_name].policies
        here = GraphState.of(tf.compat.v1.get_default_graph()).thresholds.of(table.table_name)
        return here.access < 0 and (policies is None or policies.access_threshold < 0)

    def _shape(self, table: Table) -> TableShape:
        """Return the shape of a table with the seed and pool of the checkpoint."""
        checkpoint = self._opened()
        initial = checkpoint.tables[table.table_name].initial
        if initial is None:
            return table.shape
        pool = checkpoint.pool(table.table_name)
        return table.shape._replace(
            seed=initial.seed, pool=table.shape.pool if pool is None or table.shape.pool is None else pool)

    def _opened(self) -> Checkpoint:
        if self._checkpoint is None:
            self._checkpoint = open_checkpoint(self._prefix)
        return self._checkpoint

    def _write(self, table: Table) -> Written:
        checkpoint = self._opened()
        name = table.table_name
        spec = checkpoint.tables.get(table.table_name)
        if spec is None:
            raise CheckpointMismatchError(
                self._prefix, name, "is not in the checkpoint, so it cannot be exported{}; it has {}".format(
                    "" if table.is_save else " (it was created with is_save=False)",
                    ", ".join(sorted(checkpoint.tables)) or "no table"))
        if spec.dim != table.emb_size:
            raise CheckpointMismatchError(self._prefix, name, "has rows of {} floats in the checkpoint and of {} in "
                                          "this program".format(spec.dim, table.emb_size))
        try:
            os.makedirs(self._folder, exist_ok=True)
            return self._write_files(checkpoint, table)
        except OSError as error:
            raise CheckpointError("Table {!r} was not exported to {}: {}. The checkpoint is unchanged. Remove the "
                                  "cause and export again".format(name, self._folder, why(error))) from error
