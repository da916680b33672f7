"""Class ``Table``, a sparse table in one graph."""
from typing import Any, ContextManager, Iterator, List, Mapping, Optional

import tensorflow as tf
from tensorflow.python.client import session as session_module

from ascpipe.checkpoint.contents import ColumnVariable
from ascpipe.errors import ArgumentError, CallOrderError, ServingError, TableUseError
from ascpipe.tf.graph.rewiring import outside_scopes
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.row_access import RowAccess, TableRows
from ascpipe.tf.running.shapes import TableShape

_INSTEAD = ("Read rows with table.read(keys), and set rows between steps with table.assign(keys, rows). To start with "
            "the rows of files, call asc.create_table(..., pretrained=PATH). table.variable has the rows on the device "
            "without their keys")


class Table:
    """A sparse table in one graph. ``create_table`` returns this object.

    Attributes:
        table_name: name of the table, without invalid characters.
        shape: description of the table for the native library.
        key_dtype: declared dtype of keys. ascpipe converts keys to int64.
        is_save: True if checkpoints contain the table.
        trainable: False if no lookup trains rows. New keys still get rows.
        is_differentiated: True if a lookup of the table has a gradient.
        optimizer_variables: slot variables of optimizers.
        column: variable of a feature column that the table replaces, or None.
    """

    def __init__(self, shape: TableShape, variable: Optional[tf.Variable], key_dtype: tf.DType, *,
                 is_save: bool) -> None:
        self.table_name = shape.name
        self.shape = shape
        self._variable = variable
        self.key_dtype = key_dtype
        self.is_save = is_save
        self.trainable = True
        self.is_differentiated = False
        self.optimizer_variables: List[tf.Variable] = []
        self.column: Optional[ColumnVariable] = None
        self._process = Process.known()

    @property
    def variable(self) -> tf.Variable:
        """Return the device table, a ref variable float[device rows, dim]. The variable of an expansion table has one
        unused row.

        Raises:
            RuntimeError: the graph is built for export, so the rows are in a file instead of a variable.
        """
        if self._variable is None:
            raise ServingError("Table {!r} has no variable in a graph that is built for export: its rows are in a "
                               "file".format(self.table_name))
        return self._variable

    @property
    def emb_size(self) -> int:
        """Return the length of a row."""
        return self.shape.dim

    def size(self) -> int:
        """Return the number of keys that have a row. The number of keys is 0 before the first run of a session.

        The function waits until the last step is finished.

        Raises:
            RuntimeError: the pipeline was not started, or has ended.
            tf.errors.OpError: the pipeline failed.
        """
        pipeline = self._pipeline()
        return 0 if pipeline is None else pipeline.native_side.table_size(self.shape.number)

    def capacity(self) -> int:
        """Return the maximum number of keys. The maximum of an expansion table increases when the table grows.

        The method raises the same errors as ``size``.
        """
        pipeline = self._pipeline()
        if pipeline is None:
            return self.shape.disk_rows or self.shape.home_rows or self.shape.device_rows
        return pipeline.native_side.table_capacity(self.shape.number)

    def read(self, keys: Any) -> TableRows:
        """Return the rows of keys in their state after the last trained step. The call does not change the table.

        The call scans all keys of the table, so one call for many keys is faster than many calls. With several ranks,
        only rank 0 may call the method. It receives the rows of all ranks.

        Args:
            keys: vector of integers, in any order and with repetitions.

        Returns:
            A named tuple of arrays in the order of ``keys``. Its fields are ``keys``, ``rows`` float32[n, dim],
            ``found`` bool[n], ``counts``, ``timestamps``, and ``slots``, a dict from the name of each optimizer slot to
            float32[n, width]. If a key has no row, its item in ``rows`` is NaN.

        Raises:
            ArgumentError: ``keys`` is not a vector of integers.
            CallOrderError: the pipeline was not started or has ended, or this is not rank 0.
            OtherRankRowsError: another rank cannot read its rows.
            tf.errors.OpError: the pipeline failed.
        """
        return self._live_rows().read(self.table_name, keys)

    def items(self, block: int = 16384) -> Iterator[TableRows]:
        """Return an iterator over all keys that have a row, in their state after the last trained step.

        Training may continue during the iteration, because the call first copies the table to a temporary file. The
        order of the keys is not defined. With several ranks, each rank iterates over the keys that it owns.

        Args:
            block: maximum number of keys per item.

        Returns:
            An iterator of the same named tuples as in ``read``.

        Raises:
            CheckpointError: the temporary file cannot be written.
            ArgumentError: ``block`` is less than 1.
            CallOrderError: the pipeline was not started, or has ended.
            tf.errors.OpError: the pipeline failed.
        """
        if block < 1:
            raise ArgumentError("block is {}. Pass a number of at least 1".format(block))
        return self._live_rows().items(self.table_name, block)

    def assign(self, keys: Any, rows: Any, slots: Optional[Mapping[str, Any]] = None) -> None:
        """Set the rows of keys between two training steps. A row is created for each key that has no row.

        Batches that were read ahead are trained with the new rows. The call copies the whole table to a temporary file
        and back, so one call for many keys is faster than many calls. The next checkpoint is a full checkpoint. With
        several ranks, only rank 0 may call the method, for keys of all ranks.

        Args:
            keys: vector of distinct integers.
            rows: float32[n, dim], finite.
            slots: dict from the name of an optimizer slot to its values, float32[n, width]. Slots that are not passed
                keep their values. If the key had no row, they get the initial values of the optimizer.

        Raises:
            ArgumentError: a key occurs twice, or an array has the wrong shape, dtype or values. Nothing was changed.
            CallOrderError: no session has run yet, so the table has no rows, or this is not rank 0. Nothing was
                changed.
            CheckpointError: the temporary file cannot be written. Nothing was changed.
            OtherRankRowsError: another rank cannot change its rows. The message says whether rows were changed.
            tf.errors.ResourceExhaustedError: the table has too little space for the new keys. Nothing was changed.
        """
        self._live_rows().assign(self.table_name, keys, rows, slots)

    def delete(self, keys: Any) -> int:
        """Delete keys between two training steps, with their rows, optimizer slots, counts and timestamps.

        A deleted key that occurs again is treated like a new key, even in a batch that was read ahead. Earlier
        checkpoints keep the rows. Like ``assign``, the call copies the whole table.

        Args:
            keys: vector of integers. Keys that are not in the table are ignored.

        Returns:
            Number of deleted keys, with and without rows.

        Raises:
            Exception: an error of ``assign``.
        """
        return self._live_rows().delete(self.table_name, keys)

    def freeze(self) -> None:
        """Exclude the table from training. Later steps read the rows of the table, but do not change the rows.

        In a running program, the call takes effect between two steps, and also applies to batches that were read ahead.
        It applies to all graphs and sessions until ``unfreeze`` is called. Meanwhile, rows are changed only by
        ``assign``, ``delete``, evictions and restores. Checkpoints do not store that a table is frozen. With several
        ranks, only rank 0 may call the method, for all ranks.

        Before the first lookup of the table, the call has the same effect as ``create_table(..., trainable=False)``.

        Raises:
            CallOrderError: no session has run yet, and a lookup already trains the table; or this is not rank 0. The
                table is not frozen.
            OtherRankRowsError: another rank has failed.
            tf.errors.OpError: the pipeline failed.
        """
        pipeline = self._running()
        if pipeline is not None:
            pipeline.live_rows.freeze(self.table_name, frozen=True)
            return
        if self.is_differentiated:
            raise CallOrderError(
                "Table {!r} cannot be frozen yet, because a lookup of this graph trains it, and no session has run. "
                "The table is not frozen. Call freeze() before the first lookup, or after the first run of a session, "
                "which initializes the variables".format(self.table_name))
        self.trainable = False

    def unfreeze(self) -> None:
        """End the effect of ``freeze`` in a running program. Later steps train the table, and new keys get rows.

        Raises:
            CallOrderError: no session has run yet, the lookups of the table have no gradients (``trainable=False``), or
                this is not rank 0. Nothing was changed.
            OtherRankRowsError: another rank has failed.
            tf.errors.OpError: the pipeline failed.
        """
        pipeline = self._running()
        if pipeline is None or not self.trainable:
            raise CallOrderError(
                "Table {!r} cannot be unfrozen, because {}. Nothing was changed. {}".format(self.table_name, *(
                    ("no session has run yet", "Call unfreeze() after the first run of a session")
                    if self.trainable else
                    ("its lookups were built without gradients", "Create the table without trainable=False, and call "
                     "freeze() after the first run of a session"))))
        pipeline.live_rows.freeze(self.table_name, frozen=False)

    def record_slot(self, variable: tf.Variable) -> None:
        """Record a slot variable that an optimizer created for this table."""
        if not any(variable is known for known in self.optimizer_variables):
            self.optimizer_variables.append(variable)

    def building(self, purpose: str) -> ContextManager[None]:
        """Place the ops of the block in the name scope ``ascpipe/<variable of the table>_<purpose>``."""
        return outside_scopes(self.variable.graph, "ascpipe/{}_{}".format(self.variable.op.name, purpose))

    def _live_rows(self) -> RowAccess:
        pipeline = self._pipeline()
        if pipeline is None:
            raise CallOrderError("Table {!r} has no rows yet, because no session has run since asc.start(). Nothing "
                                 "was changed. Run the initializer of the variables first".format(self.table_name))
        return pipeline.live_rows

    def _living(self) -> Process:
        """Return the ``Process`` in which this table was created. Raise ``CallOrderError`` after its end."""
        if self._process is None or self._process is Process.known():
            return Process.current()
        raise CallOrderError(
            "The pipeline of table {!r} has ended, and the rows of the table were discarded. Nothing was changed. Use "
            "the table inside the block `with asc.pipeline()`, or before asc.shutdown() and asc.reset(). To read the "
            "rows of a checkpoint, build the model again and restore the checkpoint".format(self.table_name))

    def _running(self) -> Optional[Pipeline]:
        """Return the pipeline of this table if the pipeline is already running. Otherwise, return None."""
        process = self._living()
        return process.pipeline if process.pipeline is not None and self.table_name in process.pipeline.tables else None

    def _pipeline(self) -> Optional[Pipeline]:
        """Return the pipeline of this table, or None while the start of the pipeline is deferred."""
        running = self._running()
        if running is not None:
            return running
        process = self._living()
        if self._variable is not None and self._variable.graph in process.deferred.graphs():
            return None  # do not start the pipeline yet, because the program may still apply gradients
        return process.running_pipeline()

    def __getattr__(self, name: str) -> Any:
        """Raise ``AttributeError``, with advice if variables of TensorFlow have the attribute, for example ``load``."""
        if name.startswith("_") or not hasattr(tf.Variable, name):
            raise AttributeError("{!r} object has no attribute {!r}".format(type(self).__name__, name))
        raise AttributeError(str(TableUseError(self.table_name, "it has no attribute {!r}. {}".format(name, _INSTEAD))))

    def __getitem__(self, item: Any) -> Any:
        """Raise ``TableUseError``, because a table has no rows at fixed positions."""
        raise TableUseError(
            self.table_name, "it has no rows at fixed positions, so it cannot be sliced or indexed. In the graph, use "
            "the rows that asc.sparse_lookup returns; create_table(padding_keys=[0]) excludes a row from training. {}"
            .format(_INSTEAD))

    def __repr__(self) -> str:
        if self.shape.expands:
            return "Table({!r}, dim={}, expansion)".format(self.table_name, self.shape.dim)
        return "Table({!r}, dim={}, device_vocabulary_size={}, host_vocabulary_size={})".format(
            self.table_name, self.shape.dim, self.shape.device_rows, self.shape.home_rows)


def _refuse_conversion(table: Table, dtype: Any = None, name: Optional[str] = None, as_ref: bool = False) -> tf.Tensor:
    """Raise ``TableUseError``, because a table was passed to an op of TensorFlow such as ``tf.nn.embedding_lookup``."""
    plain = Process.is_initialised() and Process.current().is_plain
    raise TableUseError(
        table.table_name, "a TensorFlow op cannot read it. Instead of tf.nn.embedding_lookup, call "
        "asc.sparse_lookup(table, ids{}){}. Other ops, such as tf.nn.l2_loss and tf.matmul, take the rows that a "
        "lookup returns. A Saver saves all tables, so its var_list has none "
        "(docs/how-to/tables_and_variables.md)".format(
            "" if plain else ", modify_graph=True",
            "; instead of tf.nn.embedding_lookup_sparse, call asc.lookup_sparse(table, ids, weights, combiner)"
            if plain else ""))


def _refuse_fetch(table: Table) -> Any:
    """Raise ``TableUseError``, because a table was passed to ``session.run``."""
    raise TableUseError(table.table_name, "a session cannot fetch it. {}".format(_INSTEAD))


def _refuse_feed(table: Table, value: Any = None) -> Any:
    """Raise ``TableUseError``, because a table is a key of a ``feed_dict``."""
    raise TableUseError(table.table_name, "a session cannot feed it. {}".format(_INSTEAD))


tf.register_tensor_conversion_function(Table, _refuse_conversion)
session_module.register_session_run_conversion_functions(Table, _refuse_fetch, _refuse_feed, _refuse_feed)
