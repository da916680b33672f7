"""Several Estimators in a program that knows feature columns alone: each trains tables of its own.

Their variables have the same names in graphs of their own, while a pipeline has one table of a name. So it ends where
another Estimator begins to train; what the one before has trained is in its checkpoint.
"""
from typing import Callable, Dict

import tensorflow as tf

from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.column_choice import Models
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import TableShape

Tables = Dict[str, TableShape]


class ColumnModels(Models):
    """What is known of the Estimators of a program, by their folders.

    Args:
        restart: ends the pipeline and begins anew.
    """

    def __init__(self, restart: Callable[[], None]) -> None:
        self._restart = restart
        self._tables: Dict[str, Tables] = {}
        self._last = ""  # whose tables the pipeline has; empty: those of sessions, or none

    def begin(self, folder: str, mode: str) -> None:
        """Called before a model function: let the pipeline be that of an Estimator."""
        pipeline = Process.current().pipeline
        state = GraphState.of(tf.compat.v1.get_default_graph())
        if state.served is not None:
            return  # it reads a checkpoint
        if pipeline is not None and not state.tables and self._last not in ("", folder):
            known = {name: table.shape for name, table in pipeline.tables.items()}
            trains_others = mode == tf.estimator.ModeKeys.TRAIN and bool(pipeline.trained_tables())
            if trains_others or _disagree(known, self._tables.get(folder, {})):
                self._restart()
        if mode == tf.estimator.ModeKeys.TRAIN or Process.current().pipeline is None:
            self._last = folder

    def end(self, folder: str) -> None:
        """Called after it: note its tables."""
        state = GraphState.of(tf.compat.v1.get_default_graph())
        self._tables.setdefault(folder, {}).update((name, table.shape) for name, table in state.tables.items())


def _disagree(known: Tables, wanted: Tables) -> bool:
    """Whether tables of the same names have other sizes."""
    return any(name in known and (known[name].dim, known[name].device_rows, known[name].home_rows)
               != (shape.dim, shape.device_rows, shape.home_rows) for name, shape in wanted.items())
