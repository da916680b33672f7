"""Export of models: the context manager ``serving_tables``, and exports of Estimators.

In a graph that this module marks, lookups read table files (``served_tables.py``).
"""
import contextlib
import glob
import itertools
import logging
import os
import time
import weakref
from typing import Any, Callable, Dict, Iterator, MutableMapping, NamedTuple, Optional

import tensorflow as tf

from ascpipe.checkpoint.paths import place_of
from ascpipe.checkpoint.table_file import SUFFIX
from ascpipe.errors import ArgumentError, ServingError
from ascpipe.errors.base import shown
from ascpipe.tf import internals, patches
from ascpipe.tf.clean_up import end_quietly, interruptible, temporary_folder
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.column_choice import Columns
from ascpipe.tf.running.process import Process
from ascpipe.tf.serving.ascpipe_tables import AscpipeTables
from ascpipe.tf.serving.served_tables import Files, ServedTables
from ascpipe.tf.serving.stock_files import DTYPES
from ascpipe.tf.serving.stock_tables import StockTables
from ascpipe.tf.serving.watched_tables import EVERY_S, MAX_EVERY_S, MIN_EVERY_S, Updates, WatchedTables
from ascpipe.tf.validation import Choice, Having, Instance, Number, PathText, checked
from ascpipe.tfops import load

_log = logging.getLogger(__name__)

ASCPIPE = "ascpipe"  #: lookups are ops of ascpipe
STOCK = "stock"  #: lookups are ops of TensorFlow


class Format(NamedTuple):
    """Format of an export.

    Attributes:
        ops: ``ASCPIPE`` or ``STOCK``.
        dtype: dtype of exported rows, one of ``DTYPES``. It is float32 with ``ASCPIPE``.
        updates: updates that a server applies, or None.
    """

    ops: str = ASCPIPE
    dtype: str = DTYPES[0]
    updates: Optional[Updates] = None

    def tables(self, prefix: str, folder: str, files: Files) -> ServedTables:
        """Return the tables of a checkpoint for one graph. The arguments are the same as for ``ServedTables``."""
        if self.updates is not None:
            return WatchedTables(prefix, folder, files, self.updates)
        if self.ops == ASCPIPE:
            return AscpipeTables(prefix, folder, files)
        return StockTables(prefix, folder, files, self.dtype)


#: Builder of a SavedModel that is being written -> its files, which the graphs of all modes share.
_files_of: MutableMapping[Any, Files] = weakref.WeakKeyDictionary()

#: Estimator -> temporary directory of its export in progress.
_unfinished: MutableMapping[Any, str] = weakref.WeakKeyDictionary()

#: Estimator -> format of its export in progress.
_format_of: MutableMapping[Any, Format] = weakref.WeakKeyDictionary()


@interruptible
def serving_tables(prefix: str, *, ops: str = ASCPIPE, dtype: Any = DTYPES[0], watch: Optional[str] = None,
                   every_s: float = EVERY_S) -> Iterator[None]:
    """Context manager in which lookups of the default graph read the tables of a checkpoint. No daemon is needed.

    In the block, build the model with placeholders as inputs. Look tables up with ``training=False``, or in `mx_rec`
    with ``is_train=False``. Restore the variables from
    the same checkpoint, and export the model. The op that runs when the SavedModel is loaded must be
    ``tf.tables_initializer()`` or a group that contains it.

    Args:
        prefix: prefix of the checkpoint, ``dir/base-step``. The first lookup verifies the checkpoint.
        ops: ops of the lookups. "ascpipe" (the default) needs the op library of ascpipe on the server. "stock" selects
            TensorFlow's own ops, which read the tables into memory when the model is loaded.
        dtype: dtype of the rows with ``ops="stock"``: "float32", "float16" or "int8", or the ``tf.DType``.
        watch: directory on the server with the files that ``export_delta`` wrote, or None. The exported model applies
            these updates to its tables when it is loaded and while it is used. This requires ``ops="ascpipe"``.
        every_s: interval in seconds at which the directory is read.

    Raises:
        CheckpointPathError: the path is not allowed.
        EnvironmentError: ``init`` was not called.
        RuntimeError: the default graph already has tables, or ``ops`` is "stock" and the graph contains ops of ascpipe
            at the end of the block.
        ValueError: ``ops`` or ``dtype`` is unknown, or ``watch`` or ``every_s`` is not allowed.
    """
    exported = _format(ops, dtype, watch, every_s)
    place_of(prefix)
    with temporary_folder("ascpipe-export-") as folder, served_from(prefix, folder, {}, exported):
        yield


@checked(estimator=Having("an Estimator", "export_saved_model"), export_dir_base=Instance(str, bytes, os.PathLike),
         serving_input_receiver_fn=Having("a function", "__call__"))
def export_saved_model(estimator: Any, export_dir_base: Any, serving_input_receiver_fn: Callable[[], Any], *,
                       ops: str = ASCPIPE, dtype: Any = DTYPES[0], watch: Optional[str] = None,
                       every_s: float = EVERY_S, **options: Any) -> bytes:
    """Call ``estimator.export_saved_model`` with the given ops and dtype of the exported tables.

    The arguments ``ops``, ``dtype``, ``watch`` and ``every_s`` are the same as in ``serving_tables``.

    Args:
        estimator: an Estimator with tables.
        export_dir_base: argument of ``estimator.export_saved_model``.
        serving_input_receiver_fn: argument of ``estimator.export_saved_model``.
        **options: other arguments of ``estimator.export_saved_model``.

    Returns:
        The directory of the SavedModel.

    Raises:
        EnvironmentError: ``init`` was not called.
        RuntimeError: ``ops`` is "stock", and the exported graph contains ops of ascpipe.
        ValueError: ``ops`` or ``dtype`` is unknown, or ``watch`` or ``every_s`` is not allowed.
        Exception: an error of ``estimator.export_saved_model``.
    """
    Process.current()
    _format_of[estimator] = _format(ops, dtype, watch, every_s)
    try:
        exported: bytes = estimator.export_saved_model(os.fspath(export_dir_base), serving_input_receiver_fn, **options)
    finally:
        del _format_of[estimator]
    return exported


def _format(ops: str, dtype: Any, watch: Optional[str], every_s: float) -> Format:
    """Return the ``Format`` for the arguments. Raise ``ArgumentError`` if an argument is not allowed."""
    Choice(ASCPIPE, STOCK).check("ops", ops)
    name = dtype.name if isinstance(dtype, tf.DType) else dtype
    Choice(*DTYPES).check("dtype", name)
    if ops == ASCPIPE and name != DTYPES[0]:
        raise ArgumentError("argument dtype: rows of {} need ops=\"stock\". Lookups of ascpipe read float32 rows"
                            .format(name))
    PathText(1, 1024, optional=True).check("watch", watch)
    Number(MIN_EVERY_S, MAX_EVERY_S).check("every_s", every_s)
    if watch is not None and ops != ASCPIPE:
        raise ArgumentError("argument watch: updates of {} need ops=\"ascpipe\". Ops of TensorFlow cannot change a "
                            "table that is served".format(shown(watch)))
    return Format(ops, name, None if watch is None else Updates(os.path.abspath(watch), float(every_s)))


def _default_format() -> Format:
    """Return the format of exports by an Estimator's own methods."""
    choice = Columns.of(Process.current()).choice
    return Format() if choice is None else Format(choice.export_ops)


@interruptible
def served_from(prefix: str, folder: str, files: Files, exported: Format) -> Iterator[None]:
    """Context manager that works like ``serving_tables``, but takes the arguments of ``ServedTables`` and a ``Format``.
    """
    graph = tf.compat.v1.get_default_graph()
    state = GraphState.of(graph)
    if state.tables or state.served is not None:
        raise ServingError("The default graph already has tables, or tables of a checkpoint. Call "
                           "asc.serving_tables() before asc.create_table(), in a separate graph")
    served = state.served = exported.tables(prefix, folder, files)
    try:
        yield
        served.check(graph)
    except BaseException:
        end_quietly(served.discard, "an export of " + prefix)
        end_quietly(served.close, "an export of " + prefix)
        raise
    served.close()


@patches.EXPORT_DIRECTORY.by
def _export_directory(base: Any) -> bytes:
    """Replacement for ``get_timestamped_export_dir`` that returns a different directory on each rank.

    Returns:
        ``base/SECOND``. SECOND is the first timestamp in seconds, starting with the current time, for which ``SECOND %
        ranks == rank`` and the directory does not exist.
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


@patches.EXPORT_ALL.by
def _export_all(self: Any, *args: Any, **kwargs: Any) -> bytes:
    """Replacement for ``Estimator._export_all_saved_models`` that removes the temporary directory of a failed export.

    TensorFlow leaves the directory behind. With tables, the directory may be large.
    """
    try:
        exported: bytes = patches.EXPORT_ALL.plain(self, *args, **kwargs)
    except BaseException:
        folder = _unfinished.get(self)
        if folder is not None:
            end_quietly(lambda: tf.io.gfile.exists(folder) and tf.io.gfile.rmtree(folder), folder)
        raise
    finally:
        _unfinished.pop(self, None)
    if glob.glob(os.path.join(glob.escape(os.fsdecode(exported)), "assets", "*" + SUFFIX)):
        _tell_library(os.fsdecode(exported))
    return exported


def _tell_library(exported: str) -> None:
    """Log, once per process, that a server of the exported model needs the op library."""
    warned = Process.current().warned
    if "export" not in warned:
        warned.add("export")
        _log.info("a server of %s needs the op library %s. For a server with only TensorFlow, export with "
                  "ops=\"stock\": `ascpipe run --columns --export-ops stock`, or asc.export_saved_model(..., "
                  "ops=\"stock\")", exported, load.library_path())


@patches.ADD_META_GRAPH.by
def _add_meta_graph(self: Any, builder: Any, input_receiver_fn_map: Dict[Any, Any], checkpoint_path: Any, *args: Any,
                    **kwargs: Any) -> Any:
    """Replacement for ``Estimator._add_meta_graph_for_mode``. Lookups in the exported graph read table files.

    TensorFlow's method creates the graph and then calls the input receiver of the mode. Therefore, this function wraps
    the input receivers.
    """
    if not Process.is_initialised():
        return patches.ADD_META_GRAPH.plain(self, builder, input_receiver_fn_map, checkpoint_path, *args, **kwargs)
    _unfinished[self] = internals.folder_of(builder)
    with contextlib.ExitStack() as ends:
        # TensorFlow copies assets to this directory, but leaves existing files unchanged.
        folder = os.path.join(internals.folder_of(builder), "assets")
        if "://" in folder:  # the directory is not local, so TensorFlow copies the files
            folder = ends.enter_context(temporary_folder("ascpipe-export-"))
        folder = os.path.abspath(folder)  # tempfile would create the parts of a table in $TMPDIR
        files = _files_of.setdefault(builder, {})
        exported = _format_of.get(self) or _default_format()

        def served(receive: Callable[[], Any]) -> Callable[[], Any]:
            def receive_served() -> Any:
                ends.enter_context(served_from(os.fsdecode(checkpoint_path), folder, files, exported))
                return receive()

            return receive_served

        receivers = {mode: receive and served(receive) for mode, receive in input_receiver_fn_map.items()}
        return patches.ADD_META_GRAPH.plain(self, builder, receivers, checkpoint_path, *args, **kwargs)
