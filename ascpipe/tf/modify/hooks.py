"""Graph modification in monitored sessions and Estimators, where the graph is complete only when the session begins."""
from typing import Any

import tensorflow as tf

from ascpipe.layout.words import TRAIN
from ascpipe.tf import patches
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.modify import iterators
from ascpipe.tf.modify.modifier import INITIALIZERS, modify_graph_and_start_emb_cache
from ascpipe.tf.program import merging
from ascpipe.tf.starting.start_pipeline import start_asc_pipeline
from ascpipe.tf.validation import boolean, check_all


class GraphModifierHook(tf.estimator.SessionRunHook):
    """Modifies the graph and starts the pipeline when a session begins; for ``train``, ``evaluate`` and ``predict``.

    Args:
        dump_graph: see ``modify_graph_and_start_emb_cache``.
        modify_graph: False: lookups have FeatureSpecs, only start the pipeline.

    Raises:
        ValueError: an argument of the wrong type. ``begin`` raises as ``modify_graph_and_start_emb_cache``.
    """

    def __init__(self, dump_graph: bool = False, modify_graph: bool = True) -> None:
        check_all({"dump_graph": boolean(), "modify_graph": boolean()},
                  {"dump_graph": dump_graph, "modify_graph": modify_graph})
        self._dump = dump_graph
        self._modify = modify_graph

    def begin(self) -> None:
        """Modify and mark, before the graph is finalized, with which the pipeline starts."""
        if self._modify:
            modify_graph_and_start_emb_cache(dump_graph=self._dump)
        else:
            start_asc_pipeline()

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        """Initialise the iterators, as not every program leaves that to an Estimator."""
        initializers = session.graph.get_collection(INITIALIZERS)
        if initializers:
            session.run(initializers)


def install() -> None:
    """Let every optimizer of this process merge lookups before it computes gradients, let no managed session begin
    with a graph that needs modification, and let iterators be asked after it. May be called twice."""
    patches.COMPUTE_GRADIENTS.apply(_compute_gradients)
    patches.CREATE_SESSION.apply(_create_session)
    iterators.install()


def _compute_gradients(self: Any, *args: Any, **kwargs: Any) -> Any:
    graph = tf.compat.v1.get_default_graph()
    if _waits(graph):
        merging.merge(GraphState.of(graph), TRAIN)
    return patches.COMPUTE_GRADIENTS.plain(self, *args, **kwargs)


def _create_session(self: Any) -> Any:
    if _waits(tf.compat.v1.get_default_graph()):
        raise RuntimeError("the graph has sparse_lookup(..., modify_graph=True) and was not modified: add "
                           "GraphModifierHook() (mx_rec.graph.modifier) to the hooks of train, evaluate and predict, "
                           "or call modify_graph_and_start_emb_cache()")
    return patches.CREATE_SESSION.plain(self)


def _waits(graph: tf.Graph) -> bool:
    """Whether a graph has lookups that wait for graph modification."""
    state = GraphState.known(graph)
    return state is not None and bool(state.requests.lookups) and not state.requests.done
