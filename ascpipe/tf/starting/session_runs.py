"""Replacement for the function with which a session runs a step. The replacement starts pipelines and checks runs."""
import logging
import weakref
from typing import Any, Sequence

import tensorflow as tf

from ascpipe.errors import api_names
from ascpipe.tf import patches
from ascpipe.tf.checkpoints import pending_loads, pretrained
from ascpipe.tf.graph import row_resets, settled_runs
from ascpipe.tf.graph.fed_ids import ops_run, refuse_fed_ids
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.whole_writes import refuse_whole_writes
from ascpipe.tf.running import op_errors
from ascpipe.tf.starting import first_batch
from ascpipe.tf.starting.copied_graphs import require_no_copy
from ascpipe.tf.starting.start_pipeline import start_marked

_log = logging.getLogger(__name__)

#: Sessions that ran a graph with lookups before its pipeline started. They keep the ops that existed at that time.
_ran_before: "weakref.WeakSet[tf.compat.v1.Session]" = weakref.WeakSet()


@patches.SESSION_CALL.by
def _do_call(self: Any, *arguments: Any) -> Any:
    try:
        if settled_runs.is_settled(self, arguments):
            return patches.SESSION_CALL.plain(self, *arguments)
        start_marked(self.graph)
        state = GraphState.known(self.graph)
        if state is None:  # after ``shutdown``
            return patches.SESSION_CALL.plain(self, *arguments)
        run = settled_runs.run_of(self.graph, arguments)
        writes = _check(self, state, arguments)
        started = pretrained.starts(self.graph)
        pending = pending_loads.sizes(self.graph)
        starts = row_resets.starts(state)
        result = patches.SESSION_CALL.plain(self, *arguments)
        pending_loads.require_loaded(self.graph, pending)  # before pretrained rows, which are not trained, are loaded
        pretrained.load_started(self, started)
        initializes = row_resets.note_run(self.graph, state, starts)
        if _is_complete(state):
            first_batch.note_run(self.graph, state, arguments)
            if not (writes or started or pending or initializes):
                settled_runs.settle(self, state, run)
        return result
    except tf.errors.OpError as error:
        op_errors.raise_coded(error)
        raise
    except RuntimeError as error:
        if hides_interrupt(error):
            raise KeyboardInterrupt from error
        raise


def _check(session: Any, state: GraphState, arguments: Sequence[Any]) -> bool:
    """Check a run, and return whether it initializes variables of tables."""
    require_no_copy(session.graph)
    refuse_fed_ids(session.graph, arguments)
    writes = refuse_whole_writes(session.graph, arguments)
    _warn_of_early_run(session, state)
    if row_resets.replaced(state) and first_batch.looks_up(session.graph, ops_run(arguments)):
        row_resets.warn(state)
    return writes


def _is_complete(state: GraphState) -> bool:
    """Return whether the pipeline of a graph has started, or the graph has no tables."""
    return state.started or not (state.tables or state.requests.lookups)


def _warn_of_early_run(session: Any, state: GraphState) -> None:
    """Warn if lookups will fail because a session ran too early. Ops without lookups still work in the session."""
    patches.SESSION_CALL.put_on(session)  # the patch also shortens op errors after ``shutdown``
    if not state.started:
        if state.lookups or state.requests.lookups:
            _ran_before.add(session)
    elif session in _ran_before:
        _ran_before.discard(session)
        _log.warning(api_names.in_names_of_program(
            "a session ran before asc.start() was called for its graph. The session keeps the ops of that time, so its "
            "lookups fail. Call asc.start() before the first run of the session, or create the session after it"))


def hides_interrupt(error: RuntimeError) -> bool:
    """Return True if TensorFlow 2.15 raised ``error`` instead of a ``KeyboardInterrupt``."""
    return "error_already_set: MISMATCH" in str(error) and "KeyboardInterrupt" in str(error)
