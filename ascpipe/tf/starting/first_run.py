"""Starts the pipeline of a marked graph with the first run of a session, or with ``finalize`` if that comes first."""
import logging
import weakref
from typing import Any

import tensorflow as tf

from ascpipe.tf import patches
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)

#: Sessions that ran while their graph had lookups and had not started: the runtime keeps the ops as they were then.
_ran_before: "weakref.WeakSet[tf.compat.v1.Session]" = weakref.WeakSet()


def watch_sessions() -> None:
    """From now on sessions and graphs of this process start what is marked. May be called twice."""
    patches.EXTEND_GRAPH.apply(_extend_graph)
    patches.FINALIZE.apply(_finalize)


def _extend_graph(self: Any) -> None:
    """Every way of running a session calls this before it adds new ops to the runtime."""
    _start(self.graph)
    _warn_of_early_run(self)
    patches.EXTEND_GRAPH.plain(self)


def _finalize(self: tf.Graph) -> None:
    _start(self)
    patches.FINALIZE.plain(self)


def _start(graph: tf.Graph) -> None:
    if Process.is_initialised():
        Process.current().deferred.start(graph)


def _warn_of_early_run(session: Any) -> None:
    """Warn why lookups will fail in a session; no error, as it may run ops that look nothing up."""
    state = GraphState.known(session.graph)
    if state is None:
        return
    if not state.started:
        if state.lookups or state.requests.lookups:
            _ran_before.add(session)
    elif session in _ran_before:
        _ran_before.discard(session)
        _log.warning("a session ran before start_asc_pipeline() or modify_graph_and_start_emb_cache() was called for "
                     "its graph: it keeps ops as they were then, so its lookups fail. Call these before its first "
                     "run, or make the session after it")
