"""Graphs for export. Their lookups read table files, which ascpipe writes from a checkpoint.

See docs/how-to/saved_models.md.

Estimators build such graphs in ``export_saved_model`` and similar methods.
"""
import contextlib
import itertools
import os
import time
import weakref
from typing import Any, Callable, Dict, Iterator, List, MutableMapping, Optional

import tensorflow as tf

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.errors import CheckpointError, CheckpointMismatchError
from ascpipe.checkpoint.paths import place_of
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.table_file import SUFFIX, TableFile, write_table_file
from ascpipe.checkpoint.tree import why
from ascpipe.errors import NotBuiltYetError, ServingError, TableLookupError
from ascpipe.layout.words import TRAIN
from ascpipe.tf import internals, patches
from ascpipe.tf.clean_up import end_quietly, temporary_folder
from ascpipe.tf.graph.batch_structure import require_ids
from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.graph_state import GraphState, Served
from ascpipe.tf.graph.ids import Ids, are_ids, as_keys
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.rewiring import outside_scopes
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.unseen_rows import Unseen, initial_where_missing
from ascpipe.tf.running import native
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import TableShape

Files = Dict[str, TableFile]  #: table name -> file that was written for the table

#: Builder of a SavedModel that is being written -> files. The graphs of all modes of the model share these files.
_files_of: MutableMapping[Any, Files] = weakref.WeakKeyDictionary()


class ServedTables(Served):
    """The tables of one checkpoint for one graph. The first lookup of a table writes the table's file.

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
        self._handles: Dict[str, tf.Tensor] = {}
        self._written: List[str] = []
        self._calls = 0
        self._closed = False

    def look_up(self, request: LookupRequest) -> tf.Tensor:
        """Return the rows of ids. The ids of a FeatureSpec are read from ``request.batch``.

        Raises:
            RuntimeError: a FeatureSpec has no ``batch``, or the files were closed.
            KeyError: ``batch`` does not have the feature.
            ValueError: the ids are not numbers.
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
        handle = self._handle(table)
        gives_initial = self._returns_initial_rows(table, request.unseen)
        self._calls += 1
        with tf.name_scope("ascpipe/{}_serving".format(table.table_name)), tf.device("/device:CPU:0"):
            look_up = native.ops().asc_served_lookup_found if gives_initial else native.ops().asc_served_lookup
            keys = as_keys(values)
            rows = look_up(table=handle, keys=keys, default_row=default_row, dim=table.emb_size)
            if gives_initial:
                rows = initial_where_missing(self._shape(table), rows.rows, keys, rows.found)
            if not found.is_dense:
                rows = _dense(rows, found, default_row)
        return tf.identity(rows, name=request.name or "sparse_lookup_{}".format(self._calls))

    def dense_path(self, prefix: str) -> str:
        """Return the path of the verified dense part if ``prefix`` is the checkpoint of these tables.

        Otherwise, return ``prefix``.
        """
        if prefix != self._prefix or self._checkpoint is None or self._checkpoint.dense_prefix is None:
            return prefix
        return self._checkpoint.dense_prefix

    def discard(self) -> None:
        """Remove the files that were written for this graph. Call this method after a failed export."""
        for name in self._written:
            del self._files[name]
            with contextlib.suppress(OSError):
                os.unlink(self._path(name))
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)
        self._written = []

    def close(self) -> None:
        """Close the checkpoint. A second call is allowed.

        Later, the first lookup of another table raises ``RuntimeError``.
        """
        self._closed = True
        if self._checkpoint is not None:
            self._checkpoint.close()

    def _handle(self, table: Table) -> tf.Tensor:
        """Return the handle of a table.

        The first call for a table writes the table's file, and builds the ops that open the file.
        """
        name = table.table_name
        if name in self._handles:
            return self._handles[name]
        if self._closed:
            raise ServingError("Table {!r}: the block of asc.serving_tables() has ended. Look up and export inside "
                               "the block".format(name))
        if name not in self._files:
            self._files[name] = self._write(table)
            self._written.append(name)
        file = self._files[name]
        graph = tf.compat.v1.get_default_graph()
        with outside_scopes(graph, "ascpipe/{}_table".format(name)):
            path = tf.constant(self._path(name), tf.string, name="path")
            # The shared name identifies the content, because one session may load several SavedModels.
            handle = native.ops().asc_served_table(
                shared_name="ascpipe/{}/{}-{:08x}".format(name, file.rows, file.seal))
            opened = native.ops().asc_open_served_table(table=handle, path=path, seal=file.seal)
        graph.add_to_collection(tf.compat.v1.GraphKeys.ASSET_FILEPATHS, path)
        graph.add_to_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, opened)
        self._handles[name] = handle
        return handle

    def _returns_initial_rows(self, table: Table, unseen: Unseen) -> bool:
        """Return whether lookups return initial rows for keys that are not in the table file.

        The result depends on thresholds of the checkpoint and of this graph.
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

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name + SUFFIX)

    def _write(self, table: Table) -> TableFile:
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
            directory = disk.open_directory(self._folder)
            try:
                return write_table_file(checkpoint, name, directory, name + SUFFIX)
            finally:
                disk.close(directory)
        except OSError as error:
            raise CheckpointError("Table {!r} was not exported to {}: {}. The checkpoint is unchanged. Remove the "
                                  "cause and export again".format(name, self._folder, why(error))) from error


@contextlib.contextmanager
def serving_tables(prefix: str) -> Iterator[None]:
    """Context manager in which lookups of the default graph read the tables of a checkpoint, without a daemon.

    In the block, build the model with placeholders as inputs and with ``is_train=False``. Restore the variables from
    the same checkpoint, and export the model. The op that runs when the SavedModel is loaded must be
    ``tf.tables_initializer()`` or a group that contains it.

    Args:
        prefix: prefix of the checkpoint, ``dir/base-step``. The first lookup verifies the checkpoint.

    Raises:
        CheckpointPathError: the path is not allowed.
        EnvironmentError: ``init`` was not called.
        RuntimeError: the default graph has tables.
    """
    place_of(prefix)
    with temporary_folder("ascpipe-export-") as folder, served_from(prefix, folder, {}):
        yield


@contextlib.contextmanager
def served_from(prefix: str, folder: str, files: Files) -> Iterator[None]:
    """Context manager like ``serving_tables``, with the arguments of ``ServedTables``."""
    state = GraphState.of(tf.compat.v1.get_default_graph())
    if state.tables or state.served is not None:
        raise ServingError("The default graph already has tables, or tables of a checkpoint. Call "
                           "asc.serving_tables() before asc.create_table(), in a separate graph")
    served = state.served = ServedTables(prefix, folder, files)
    try:
        yield
    except BaseException:
        end_quietly(served.discard, "an export of " + prefix)
        end_quietly(served.close, "an export of " + prefix)
        raise
    served.close()


@patches.EXPORT_DIRECTORY.by
def _export_directory(base: Any) -> bytes:
    """Replacement for ``get_timestamped_export_dir`` that returns a different directory on each rank.

    Returns:
        ``base/SECOND``. SECOND is the first second, starting with the current time, for which ``SECOND % ranks ==
        rank`` and the directory does not exist.
    """
    known = Process.current().configuration if Process.is_initialised() else None
    if known is None or known.rank_size == 1:
        return patches.EXPORT_DIRECTORY.plain(base)
    now = int(time.time())
    for second in itertools.count(now + (known.rank_id - now) % known.rank_size, known.rank_size):
        directory = os.path.join(os.fsencode(base), str(second).encode())
        if not tf.io.gfile.exists(directory):
            break
    return directory


@patches.ADD_META_GRAPH.by
def _add_meta_graph(self: Any, builder: Any, input_receiver_fn_map: Dict[Any, Any], checkpoint_path: Any, *args: Any,
                    **kwargs: Any) -> Any:
    """Replacement for ``Estimator._add_meta_graph_for_mode``. Lookups in the exported graph read table files.

    TensorFlow's method creates the graph and then calls the input receiver of the mode. This function wraps the input
    receivers.
    """
    if not Process.is_initialised():
        return patches.ADD_META_GRAPH.plain(self, builder, input_receiver_fn_map, checkpoint_path, *args, **kwargs)
    with contextlib.ExitStack() as ends:
        # TensorFlow copies assets to this directory, but leaves existing files unchanged.
        folder = os.path.join(internals.folder_of(builder), "assets")
        if "://" in folder:  # the directory is not local, so TensorFlow copies the files
            folder = ends.enter_context(temporary_folder("ascpipe-export-"))
        files = _files_of.setdefault(builder, {})

        def served(receive: Callable[[], Any]) -> Callable[[], Any]:
            def receive_served() -> Any:
                ends.enter_context(served_from(os.fsdecode(checkpoint_path), folder, files))
                return receive()

            return receive_served

        receivers = {mode: receive and served(receive) for mode, receive in input_receiver_fn_map.items()}
        return patches.ADD_META_GRAPH.plain(self, builder, receivers, checkpoint_path, *args, **kwargs)


def _dense(rows: tf.Tensor, ids: Ids, default_row: tf.Tensor) -> tf.Tensor:
    places = tf.range(tf.shape(rows)[0])
    restore = ids.dense_restore(places)
    dense, = native.ops().asc_restore_rows(local=rows, places=places, restore=[restore], default_row=default_row)
    return dense
