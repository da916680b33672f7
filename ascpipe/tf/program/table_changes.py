"""Changes of a table between two steps: new access thresholds, and feature eviction.

A change takes effect between two trained batches, even if the pipeline has read more batches ahead. Run the op in a
separate ``session.run`` without a training step.
"""
import logging
import time
from typing import Any, List, Optional

import tensorflow as tf

from ascpipe.errors import CallOrderError, MissingFromGraphError, api_names
from ascpipe.layout.words import CUT_EVICT, CUT_THRESHOLD, TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.features import clean_table_name
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.rewiring import outside_scopes
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.running import native
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Having, Integer, IntegerScalar, Text, boolean, checked

_log = logging.getLogger(__name__)


@checked(threshold=IntegerScalar(), emb_name=Text(0, 100), ids_name=Text(0, 255), name=Text(1, 255, optional=True))
def set_threshold(threshold: Any, emb_name: str = "", ids_name: str = "", name: Optional[str] = None) -> tf.Operation:
    """Return an op that sets the access threshold of tables. Run the op between training steps.

    Tables without admission do not change.

    Args:
        threshold: the new threshold, an integer or a scalar integer tensor. With 0, occurrences are no longer counted,
            and the threshold does not change. The op raises ``tf.errors.InvalidArgumentError`` for a negative number.
        emb_name: name of the table. The empty string selects all tables that exist in the default graph when the
            function is called.
        ids_name: has no effect.
        name: name scope of the op.

    Raises:
        ValueError: an argument has the wrong type, or the table does not exist.
        EnvironmentError: ``init`` was not called.
    """
    graph = tf.compat.v1.get_default_graph()
    tables = _named_tables(GraphState.of(graph), emb_name)
    with graph.name_scope(name or "set_threshold"), tf.device("/device:CPU:0"):
        argument = tf.cast(tf.convert_to_tensor(threshold), tf.int64)
        return tf.group(*[_cut(table, CUT_THRESHOLD, argument) for table in tables])


def eviction_op(state: GraphState) -> Optional[tf.Operation]:
    """Return the op that evicts keys from all trained tables with an ``eviction_threshold``.

    Return None if the graph has no such tables.
    """
    tables = [table for name, table in state.tables.items()
              if (name, TRAIN) in state.lookups and state.thresholds.of(name).evicts]

    def make() -> tf.Operation:
        with outside_scopes(tables[0].variable.graph, "ascpipe/evict"):
            return tf.group(*[
                _cut(table, CUT_EVICT, tf.constant(state.thresholds.of(table.table_name).eviction, tf.int64))
                for table in tables])

    return internals.stored_on(state, "evict_op", make) if tables else None


class EvictHook(tf.estimator.SessionRunHook):
    """Hook that evicts unused keys from all trained tables with an ``eviction_threshold``.

    The age of a key is computed from the timestamps of batches. The two intervals determine when the tables are
    scanned. The count, row and optimizer slots of an evicted key are deleted. Use the hook in a ``MonitoredSession`` or
    Estimator. In a plain session loop, call ``trigger_evict``.

    Args:
        evict_enable: True if the hook evicts keys.
        evict_time_interval: seconds between two scans, in [1, 2147483647].
        evict_step_interval: number of steps in [1, 2147483647], or None. Tables are also scanned when the global step
            reaches a multiple of this number.

    Raises:
        ValueError: an argument has the wrong type or is out of range.
    """

    @checked(evict_enable=boolean(), evict_time_interval=Integer(1), evict_step_interval=Integer(1, optional=True))
    def __init__(self, evict_enable: bool = False, evict_time_interval: int = 86400,
                 evict_step_interval: Optional[int] = None) -> None:
        self._enabled = evict_enable
        self._seconds = evict_time_interval
        self._steps = evict_step_interval
        self._evict: Optional[tf.Operation] = None
        self._global_step: Optional[tf.Variable] = None
        self._last_step = 0
        self._last_time = 0.0

    def begin(self) -> None:
        """Create the eviction op before the graph is finalized.

        Raises:
            RuntimeError: ``evict_step_interval`` is set, and the graph has no global step.
        """
        if not self._enabled:
            return
        state = GraphState.of(tf.compat.v1.get_default_graph())
        self._evict = eviction_op(state)
        if self._evict is None:
            _log.warning(api_names.in_names_of_program(
                "asc.EvictHook has no effect, because the graph trains no table whose features have an "
                "eviction_threshold"))
        if self._steps is not None:
            self._global_step = tf.compat.v1.train.get_global_step()
            if self._global_step is None:
                raise MissingFromGraphError("asc.EvictHook has evict_step_interval={}, but the graph has no global "
                                            "step. Call tf.train.get_or_create_global_step()".format(self._steps))

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        """Start the first time interval and the first step interval."""
        self._last_time = time.monotonic()
        if self._evict is not None and self._global_step is not None:
            self._last_step = int(session.run(self._global_step))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Evict keys in a separate session run if an interval has passed."""
        if self._evict is None:
            return
        due = time.monotonic() - self._last_time > self._seconds
        if self._global_step is not None and self._steps is not None:
            step = int(run_context.session.run(self._global_step))
            due |= step // self._steps > self._last_step // self._steps
            self._last_step = step
        if due:
            run_context.session.run(self._evict)
            self._last_time = time.monotonic()


@checked(session=Having("a session", "run", "graph", optional=True))
def trigger_evict(session: Optional[tf.compat.v1.Session] = None) -> None:
    """Evict unused keys immediately from all trained tables with an ``eviction_threshold``.

    Args:
        session: session of the training graph. It defaults to the default session.

    Raises:
        ValueError: ``session`` is not a session.
        RuntimeError: there is no default session, the pipeline does not run, or no trained table has an
            ``eviction_threshold``.
        tf.errors.OpError: the pipeline failed.
    """
    session = session or tf.compat.v1.get_default_session()
    if session is None:
        raise CallOrderError("asc.trigger_evict() was called without a session, and there is no default session. Call "
                             "it inside `with tf.Session()`, or pass session=")
    process = Process.current()
    process.deferred.start(session.graph)
    process.running_pipeline()
    state = GraphState.of(session.graph)
    evict = eviction_op(state) if state.started else None
    if evict is None:
        raise MissingFromGraphError("asc.trigger_evict() has nothing to evict from: the session's graph trains no "
                                    "table whose features have an eviction_threshold")
    session.run(evict)


def _cut(table: Table, kind: int, argument: tf.Tensor) -> tf.Operation:
    return native.ops().asc_cut(argument=argument, table=table.shape.number, kind=kind)


def _named_tables(state: GraphState, name: str) -> List[Table]:
    if not state.tables:
        raise MissingFromGraphError("set_threshold() was called in a graph without tables. Call it after "
                                    "asc.create_table()")
    cleaned = clean_table_name(name) if name else None
    if cleaned is not None and cleaned not in state.tables:
        raise MissingFromGraphError("set_threshold() found no table {!r} in the default graph, which has the "
                                    "tables {}".format(name, ", ".join(sorted(map(repr, state.tables)))))
    # Before the pipeline starts, include all tables, because a later lookup may still set a threshold.
    return [table for key, table in state.tables.items() if cleaned in (None, key)
            and (not state.started or state.thresholds.of(key).access >= 0)]
