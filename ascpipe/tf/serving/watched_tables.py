"""Exported tables that a server updates with the files of ``export_delta``, and the version that the server uses."""
import logging
from typing import Any, List, NamedTuple, Optional, Tuple

import tensorflow as tf

from ascpipe.checkpoint.errors import UnverifiedCheckpointError
from ascpipe.errors import ServingError
from ascpipe.logs import counted
from ascpipe.tf import internals
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.rewiring import outside_scopes
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.unseen_rows import initial_where_missing
from ascpipe.tf.running import native
from ascpipe.tf.running.shapes import TableShape
from ascpipe.tf.serving.ascpipe_tables import AscpipeTables
from ascpipe.tf.serving.served_tables import Files, Written

_log = logging.getLogger(__name__)

EVERY_S = 10.0  #: default interval at which a server reads the directory of updates
MIN_EVERY_S = 0.001
MAX_EVERY_S = 1e6


class Updates(NamedTuple):
    """Updates that a server applies.

    Attributes:
        directory: absolute path on the server.
        every_s: interval in seconds at which the directory is read.
    """

    directory: str
    every_s: float


class ServedUpdates(NamedTuple):
    """Tensors of ``served_updates``, all scalars.

    Attributes:
        step: int64, training step of the current version. A lookup in the same run may read a newer or older version.
        sequence: int64, sequence number of the last update, which is part of its file name. 0 if no update was applied.
        applied: int64, number of updates that were applied.
        refused: int64, number of updates that were refused.
        kept_keys: int64, number of updated keys in memory.
        problem: string, message of the last refused update or of an error in reading the directory, including its code.
            Otherwise empty.
    """

    step: tf.Tensor
    sequence: tf.Tensor
    applied: tf.Tensor
    refused: tf.Tensor
    kept_keys: tf.Tensor
    problem: tf.Tensor


class _Watch(NamedTuple):
    """Ops of all watched tables of a graph.

    Attributes:
        handle: handle of the tables.
        start: op that applies the updates when the model is loaded. It waits for the ops that open the tables.
        snapshot: version that the lookups of one step read.
        step: training step of this version.
    """

    handle: tf.Tensor
    start: tf.Operation
    snapshot: tf.Tensor
    step: tf.Tensor


class WatchedTables(AscpipeTables):
    """``AscpipeTables`` whose lookups read one version of all tables. One op chooses the version in each step."""

    def __init__(self, prefix: str, folder: str, files: Files, updates: Updates) -> None:
        super().__init__(prefix, folder, files)
        self._updates = updates
        self._watch: Optional[_Watch] = None

    def version(self) -> tf.Tensor:
        """Return the training step of the tables' version. Lookups in the same ``session.run`` read this version."""
        return self._watched().step

    def updates(self) -> ServedUpdates:
        """Return counters of updates."""
        found = native.ops().asc_served_updates(watch=self._watched().handle)
        step, sequence, applied, refused, kept_keys = tf.unstack(found.figures)
        return ServedUpdates(step, sequence, applied, refused, kept_keys, found.problem)

    def check(self, graph: tf.Graph) -> None:
        """Check the complete graph of the model. Log the trainable variables of the model, because updates do not
        change these variables.
        """
        super().check(graph)
        names = [variable.op.name for variable in graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)
                 if 0 not in variable.shape.as_list()]  # a variable with 0 rows represents the table of a column
        if names:
            _log.warning("the exported model applies updates to its tables only. Its %s (%s%s) keep the values of %s. "
                         "Export the model again to serve newer values (docs/how-to/serving_updates.md)",
                         counted(len(names), "dense variable"), ", ".join(names[:3]), ", ..." * (len(names) > 3),
                         self._prefix)

    def _watched(self) -> _Watch:
        if self._watch is None:
            step, checkpoint = self._base()
            graph = tf.compat.v1.get_default_graph()
            with outside_scopes(graph, "ascpipe/served_updates"):
                # The shared name identifies the content, because one session may load several SavedModels.
                handle = native.ops().asc_served_watch(shared_name="ascpipe/updates/{}/{:g}/{}".format(
                    checkpoint, self._updates.every_s, self._updates.directory))
                start = native.ops().asc_start_served_watch(watch=handle)
                chosen = native.ops().asc_served_version(watch=handle)
            graph.get_collection_ref(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS).append(start)
            self._watch = _Watch(handle, start, chosen.snapshot, chosen.step)
        return self._watch

    def _base(self) -> Tuple[int, str]:
        """Return step and digest of the checkpoint. Raise ``CheckpointError`` if updates cannot continue from this
        checkpoint.
        """
        checkpoint = self._opened()
        if checkpoint.link is None:
            raise UnverifiedCheckpointError(self._prefix)
        return -1 if checkpoint.step is None else checkpoint.step, checkpoint.link.manifest

    def _open(self, table: Table, paths: List[tf.Tensor], file: Written) -> Tuple[Any, List[tf.Operation]]:
        watch = self._watched()
        step, checkpoint = self._base()
        opened = native.ops().asc_open_watched_table(
            watch=watch.handle, path=paths[0], table=table.table_name, seal=file.seal,
            directory=self._updates.directory, every_s=self._updates.every_s, step=step, checkpoint=checkpoint)
        internals.add_control_input(watch.start, opened)
        return table.table_name, [opened]

    def _rows(self, opened: str, keys: tf.Tensor, default_row: tf.Tensor, dim: int,
              initial: Optional[TableShape]) -> tf.Tensor:
        found = native.ops().asc_watched_lookup(snapshot=self._watched().snapshot, keys=keys, default_row=default_row,
                                                table=opened, dim=dim)
        return found.rows if initial is None else initial_where_missing(initial, found.rows, keys, found.found)


def served_version() -> tf.Tensor:
    """Return the training step of the rows that the default graph serves.

    Add the result to the outputs of a model. If the model is exported with ``watch``, all lookups of one
    ``session.run`` read the rows of this step. In a graph that is not exported, the step is -1. A model function may
    therefore call this function in each mode.

    Returns:
        An int64 scalar.
    """
    served = GraphState.of(tf.compat.v1.get_default_graph()).served
    return tf.constant(-1, tf.int64, name="served_version") if served is None else served.version()


def served_updates() -> ServedUpdates:
    """Return counters of the updates that a server has applied and refused. Add the counters to the outputs of a model.

    Raises:
        RuntimeError: the default graph is not exported with ``watch``.
    """
    served = GraphState.of(tf.compat.v1.get_default_graph()).served
    if not isinstance(served, WatchedTables):
        raise ServingError("asc.served_updates() needs a graph that is exported with watch=, the directory of "
                           "asc.export_delta()")
    return served.updates()
