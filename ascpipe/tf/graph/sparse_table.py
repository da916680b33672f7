"""A sparse table of one graph, whose rows on the device are a TensorFlow variable."""
from typing import Any, ContextManager, List, Optional

import tensorflow as tf

from ascpipe.errors import TableUseError
from ascpipe.tf.graph.rewiring import outside_scopes
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import TableShape


class Table:
    """A sparse table of one graph. Made by ``create_table``.

    Attributes:
        table_name: its name, without the characters that are removed.
        shape: what the native side is told of it.
        key_dtype: dtype of its keys as declared; keys are int64 everywhere.
        is_save: whether checkpoints hold it.
        optimizer_variables: the slot variables that optimizers have made for it.
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
        """The device rows, float[device rows, dim], a ref variable; of an expansion table one row without use.

        Raises:
            RuntimeError: the graph is made to be exported; its rows are in a file.
        """
        if self._variable is None:
            raise RuntimeError("table {!r} has no variable here: the graph is made to be exported, its rows are in a "
                               "file".format(self.table_name))
        return self._variable

    @property
    def emb_size(self) -> int:
        """Length of a row."""
        return self.shape.dim

    def size(self) -> int:
        """Keys that have a row, after the last trained step; waits for that. 0 before the first run of a session.

        Raises:
            RuntimeError: ``start_asc_pipeline`` was not called.
            tf.errors.OpError: the pipeline failed.
        """
        pipeline = self._pipeline()
        return 0 if pipeline is None else pipeline.native_side.table_size(self.shape.number)

    def capacity(self) -> int:
        """Keys that the table can hold; of an expansion table, without growing. Raises as ``size``."""
        pipeline = self._pipeline()
        if pipeline is None:
            return self.shape.disk_rows or self.shape.home_rows or self.shape.device_rows
        return pipeline.native_side.table_capacity(self.shape.number)

    def note_slot(self, variable: tf.Variable) -> None:
        """Note a slot variable that an optimizer has made for this table."""
        if not any(variable is known for known in self.optimizer_variables):
            self.optimizer_variables.append(variable)

    def building(self, purpose: str) -> ContextManager[None]:
        """Build ops outside of all scopes of the program, named ``ascpipe/<its variable>_<purpose>``."""
        return outside_scopes(self.variable.graph, "ascpipe/{}_{}".format(self.variable.op.name, purpose))

    def _pipeline(self) -> Optional[Pipeline]:
        """The pipeline of this table, or None while its start is deferred. Raises ``RuntimeError``."""
        process = Process.current()
        if process.pipeline is not None and self.table_name in process.pipeline.tables:
            return process.pipeline
        if self._variable is not None and self._variable.graph in process.deferred.graphs():
            return None  # a question does not start the pipeline: gradients may still be applied
        return process.running_pipeline()

    def __repr__(self) -> str:
        if self.shape.expands:
            return "Table({!r}, dim={}, expansion)".format(self.table_name, self.shape.dim)
        return "Table({!r}, dim={}, device_vocabulary_size={}, host_vocabulary_size={})".format(
            self.table_name, self.shape.dim, self.shape.device_rows, self.shape.home_rows)


def _no_tensor(table: Table, dtype: Any = None, name: Optional[str] = None, as_ref: bool = False) -> tf.Tensor:
    """In the place of a conversion: an op of TensorFlow was given a table, ``tf.nn.embedding_lookup`` for instance."""
    plain = Process.is_initialised() and Process.current().is_plain
    raise TableUseError(table.table_name, "an op of TensorFlow cannot read it. Look up ids by {}sparse_lookup(table, "
                        "ids{}) in the place of tf.nn.embedding_lookup{}".format(*(
                            ("ascpipe.tf.", "", ", and by ascpipe.tf.lookup_sparse(table, ids, weights, combiner) in "
                             "that of tf.nn.embedding_lookup_sparse") if plain else ("", ", modify_graph=True", ""))))


tf.register_tensor_conversion_function(Table, _no_tensor)
