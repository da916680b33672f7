"""Record of session runs that have passed all checks and are not checked again.

A training loop repeats the same run. In a small step, the checks of a run take longer than most ops, so the same run is
checked only once.
"""
from typing import Any, Optional, Sequence, Set, Tuple

import tensorflow as tf
from tensorflow.python.client import session as session_module

from ascpipe.tf import internals
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.process import Process

_MOST_RUNS = 1000  # number of settled runs of a graph after which all are forgotten
_NAME = "settled_runs"
_OF_SESSION = "_ascpipe_" + _NAME  # attribute of ``internals.stored_on``

#: Version of the graph, names of the fetched ops, and pairs with the names of the ops whose outputs are fed.
Run = Tuple[Any, ...]


class _OfSession:
    """Record of settled runs for one session. An attribute of the session stores this object.

    Attributes:
        process: the ``Process`` of these runs, or None.
        runs: settled runs of the graph of the session.
    """

    def __init__(self) -> None:
        self.process: Optional[Process] = None
        self.runs: Set[Run] = set()


def run_of(graph: tf.Graph, arguments: Sequence[Any]) -> Run:
    """Return the values on which the checks of a run depend. Each added op changes the version of a graph.

    This function is called for each step, so it is one loop without further calls of Python functions.

    Args:
        arguments: arguments of the call with which a session runs a step. A dict contains the fed values, and lists
            contain the fetches and targets.
    """
    name_of = session_module.tf_session.TF_OperationName
    run = [graph.version]
    for each in arguments:
        if isinstance(each, list):
            for fetched in each:
                run.append(name_of(getattr(fetched, "oper", fetched)))
        elif isinstance(each, dict):
            for fed in each:
                run.append((name_of(fed.oper), fed.index))
    return tuple(run)


def is_settled(session: Any, arguments: Sequence[Any]) -> bool:
    """Return True if the same run of the session was settled before, and the graph and the ``Process`` are unchanged.

    Args:
        arguments: see ``run_of``.
    """
    known = getattr(session, _OF_SESSION, None)
    return known is not None and known.process is Process.known() and run_of(session.graph, arguments) in known.runs


def settle(session: Any, state: GraphState, run: Run) -> None:
    """Record that a run has passed all checks, so that the same run is not checked again."""
    settled = _settled(state)
    if len(settled) == _MOST_RUNS:
        settled.clear()
    settled.add(run)
    known = internals.stored_on(session, _NAME, _OfSession)
    known.process = Process.current()
    known.runs = settled


def forget(state: GraphState) -> None:
    """Check all runs again. Call this if something other than a new op changes the result of a check."""
    _settled(state).clear()


def _settled(state: GraphState) -> Set[Run]:
    return internals.stored_on(state, _NAME, set)
