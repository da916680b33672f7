"""Message to ``ascpipe run --ranks`` after the first batch. Three failures in a row without it end the restarts."""
import contextlib
import os
from typing import Any, List, Sequence, Set

import tensorflow as tf

from ascpipe import rank_lifeline, ranks
from ascpipe.tf.graph.fed_ids import ops_run
from ascpipe.tf.graph.graph_state import GraphState

_LOOKUPS = ("AscLookup", "AscLookupWithInitialRows", "AscLocalRows", "AscForward")

_told: Set[int] = set()  # PID of this process, after the message


def note_run(graph: tf.Graph, state: GraphState, arguments: Sequence[Any]) -> None:
    """Notify the launcher after the first successful batch of this process.

    Args:
        arguments: arguments of the call with which the session ran the step. Lists contain the fetches and targets.
    """
    if ranks.FOLDER_VARIABLE not in os.environ or os.getpid() in _told:
        return
    if (state.tables or state.requests.lookups) and not looks_up(graph, ops_run(arguments)):
        return
    _told.add(os.getpid())
    ranks.leave_first_batch()
    rank_lifeline.tell_first_batch()


def looks_up(graph: tf.Graph, names: Sequence[str]) -> bool:
    """Return whether ops with these names depend on a lookup, or on an op with a function that may contain a lookup."""
    known = set(names)
    waiting: List[tf.Operation] = []
    for name in known:
        with contextlib.suppress(KeyError):  # TensorFlow has added an op that the Python graph does not know
            waiting.append(graph.get_operation_by_name(name))
    while waiting:
        op = waiting.pop()
        if op.type in _LOOKUPS or op.type in ("While", "StatelessWhile", "If", "StatelessIf", "PartitionedCall",
                                              "StatefulPartitionedCall"):
            return True
        for before in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
            if before.name not in known:
                known.add(before.name)
                waiting.append(before)
    return False
