"""The user's table in one graph."""
from typing import Any, ContextManager, List, Optional

import tensorflow as tf

from ascpipe.errors import ServingError, TableUseError
from ascpipe.tf.graph.rewiring import outside_scopes
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import TableShape


class Table:
    """A sparse table of one graph. ``create_table`` creates the table.

    Attributes:
        table_name: name of the table, without invalid characters.
        shape: description of the table for the native library.
        key_dtype: declared dtype of keys. ascpipe converts keys to int64.
        is_save: True if checkpoints contain the table.
        optimizer_variables: slot variables of optimizers.
    """

    def __init__(self, shape: TableShape, variable: Optional[tf.Variable], key_dtype: tf.DType, *,
                 is_save: bool) -> None:
        self.table_name = shape.name
        self.shape = shape
        self._variable = variable
        self.key_dtype = key_dtype
        self.is_save = is_save
        self.optimizer_variables: List[tf.Variable] = []

    @property
    def variable(self) -> tf.Variable:
        """Device table, a ref variable float[device rows, dim]. The variable of an expansion table has one unused row.

        Raises:
            RuntimeError: the graph is built for export. The rows are in a file, not in a variable.
        """
        if self._variable is None:
            raise ServingError("Table {!r} has no variable in a graph that is built for export: its rows are in a "
                               "file".format(self.table_name))
        return self._variable

    @property
    def emb_size(self) -> int:
        """Length of a row."""
        return self.shape.dim

    def size(self) -> int:
        """Return the number of keys that have a row. The number is 0 before the first run of a session.

        The function waits until the last step is finished.

        Raises:
            RuntimeError: the pipeline was not started.
            tf.errors.OpError: the pipeline failed.
        """
        pipeline = self._pipeline()
        return 0 if pipeline is None else pipeline.native_side.table_size(self.shape.number)

    def capacity(self) -> int:
        """Return the maximum number of keys. An expansion table increases this maximum when it grows.

        Errors are the same as in ``size``.
        """
        pipeline = self._pipeline()
        if pipeline is None:
            return self.shape.disk_rows or self.shape.home_rows or self.shape.device_rows
        return pipeline.native_side.table_capacity(self.shape.number)

    def record_slot(self, variable: tf.Variable) -> None:
        """Record a slot variable that an optimizer created for this table."""
        if not any(variable is known for known in self.optimizer_variables):
            self.optimizer_variables.append(variable)

    def building(self, purpose: str) -> ContextManager[None]:
        """Place the ops of the block in the name scope ``ascpipe/<variable of the table>_<purpose>``."""
        return outside_scopes(self.variable.graph, "ascpipe/{}_{}".format(self.variable.op.name, purpose))

    def _pipeline(self) -> Optional[Pipeline]:
        """Return the pipeline of this table, or None while the start of the pipeline is deferred."""
        process = Process.current()
        if process.pipeline is not None and self.table_name in process.pipeline.tables:
            return process.pipeline
        if self._variable is not None and self._variable.graph in process.deferred.graphs():
            return None  # do not start the pipeline yet, because the program may still apply gradients
        return process.running_pipeline()

    def __repr__(self) -> str:
        if self.shape.expands:
            return "Table({!r}, dim={}, expansion)".format(self.table_name, self.shape.dim)
        return "Table({!r}, dim={}, device_vocabulary_size={}, host_vocabulary_size={})".format(
            self.table_name, self.shape.dim, self.shape.device_rows, self.shape.home_rows)


def _refuse_conversion(table: Table, dtype: Any = None, name: Optional[str] = None, as_ref: bool = False) -> tf.Tensor:
    """Raise ``TableUseError``: a table was passed to an op of TensorFlow, for example ``tf.nn.embedding_lookup``."""
    plain = Process.is_initialised() and Process.current().is_plain
    raise TableUseError(
        table.table_name, "a TensorFlow op cannot read it. Instead of tf.nn.embedding_lookup, call "
        "asc.sparse_lookup(table, ids{}){}".format(
            "" if plain else ", modify_graph=True",
            "; instead of tf.nn.embedding_lookup_sparse, call asc.lookup_sparse(table, ids, weights, combiner)"
            if plain else ""))


tf.register_tensor_conversion_function(Table, _refuse_conversion)
