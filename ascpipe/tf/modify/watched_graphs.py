"""Replacements for methods of a graph that TensorFlow calls before it runs or finalizes the graph.

The replacements start the pipeline of the graph, and extend ops that were created after the graph was modified.
"""
from typing import Any

import tensorflow as tf

from ascpipe.errors import CallOrderError
from ascpipe.tf import patches
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.modify.modifier import modify_graph_and_start_emb_cache
from ascpipe.tf.starting.start_pipeline import check_new_ops, start_marked


def waits(graph: tf.Graph) -> bool:
    """Return whether a graph has lookups of id tensors and was not modified yet."""
    state = GraphState.known(graph)
    return state is not None and bool(state.requests.lookups) and not state.requests.done


@patches.RUN_LOCK.by
def _session_run_lock(self: tf.Graph) -> Any:
    """Replacement for ``Graph._session_run_lock`` that first starts the pipeline of a marked graph and checks new ops.

    Every run of a session calls this method before it adds new ops to the runtime.
    """
    start_marked(self)
    check_new_ops(self)
    return patches.RUN_LOCK.plain(self)


@patches.FINALIZE.by
def _finalize(self: tf.Graph) -> None:
    """Replacement for ``Graph.finalize`` that first starts the pipeline of a marked graph and checks new ops.

    Managed sessions and supervisors call this method before they create a session.
    """
    start_marked(self)
    if waits(self):
        if not StandIns.of(GraphState.of(self)):
            raise CallOrderError("The graph has lookups of tensors and was not modified. In an Estimator, add "
                                 "asc.GraphModifierHook() to the hooks of train, evaluate and predict "
                                 "(asc.StartHook() does this, too). Otherwise call asc.start()")
        modify_graph_and_start_emb_cache(self)  # a program with feature columns only does not call start()
        start_marked(self)
    check_new_ops(self)
    patches.FINALIZE.plain(self)
