"""Class ``ColumnModels``, which separates the tables of different Estimators if a program uses tables only for feature
columns.

Estimators use the same variable names in separate graphs, but a pipeline has one table per name. ascpipe therefore
restarts the pipeline if another Estimator trains, or if its tables have other sizes. The previous Estimator's tables
can be restored from its checkpoint.
"""
from typing import Callable, Dict

import tensorflow as tf

from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.column_choice import Models
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import TableShape

Tables = Dict[str, TableShape]


class ColumnModels(Models):
    """Record of the tables that each Estimator of a program has created. An Estimator is identified by its model
    directory.

    Args:
        restart: function that ends the pipeline and calls ``init`` again.
    """

    def __init__(self, restart: Callable[[], None]) -> None:
        self._restart = restart
        self._tables: Dict[str, Tables] = {}
        self._last = ""  # directory of the Estimator whose tables are in the pipeline, or ""

    def begin(self, folder: str, mode: str) -> None:
        """Restart the pipeline if its tables conflict with an Estimator's tables.

        Call this method before the Estimator's model function.
        """
        pipeline = Process.current().pipeline
        state = GraphState.of(tf.compat.v1.get_default_graph())
        if state.served is not None:
            return  # the graph reads a checkpoint
        if pipeline is not None and not state.tables and self._last not in ("", folder):
            known = {name: table.shape for name, table in pipeline.tables.items()}
            trains_others = mode == tf.estimator.ModeKeys.TRAIN and bool(pipeline.trained_tables())
            if trains_others or _disagree(known, self._tables.get(folder, {})):
                self._restart()
        if mode == tf.estimator.ModeKeys.TRAIN or Process.current().pipeline is None:
            self._last = folder

    def end(self, folder: str) -> None:
        """Record the tables that the model function of an Estimator has created."""
        state = GraphState.of(tf.compat.v1.get_default_graph())
        self._tables.setdefault(folder, {}).update((name, table.shape) for name, table in state.tables.items())


def _disagree(known: Tables, wanted: Tables) -> bool:
    return any(name in known and (known[name].dim, known[name].device_rows, known[name].home_rows)
               != (shape.dim, shape.device_rows, shape.home_rows) for name, shape in wanted.items())
