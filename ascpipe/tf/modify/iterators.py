"""Functions that extend ops of iterators after graph modification, and return the initializers of iterators.

A batch of an extended iterator has more tensors than the program's batch structure. A ``get_next`` with fewer outputs
would abort the process. Therefore, ascpipe extends each ``get_next`` and initializer that is created later before it
runs.
"""
import weakref
from typing import Any, Dict, List, Optional

import tensorflow as tf

from ascpipe.errors import GraphModificationError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf import internals, patches
from ascpipe.tf.graph.dataset_graph import GET_NEXT
from ascpipe.tf.graph.features import CHANNEL_NAMES
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.rewiring import outside_scopes
from ascpipe.tf.modify.datasets import extend_get_next, extend_initializer
from ascpipe.tf.modify.id_graph import id_graph
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import boolean, checked


def get_target_batch(is_training: bool) -> Any:
    """Return the result of the ``get_next()`` that a channel's lookups use, or None if the channel has no lookups.

    The function uses the default graph. If the default graph has no lookups, it uses the graph that was modified last.
    """
    channel = TRAIN if is_training else EVAL
    state = GraphState.of(tf.compat.v1.get_default_graph())
    modified = _last_modified()
    if modified is not None and not state.lookups and not state.requests.lookups:
        state = GraphState.of(modified)
    for request in state.requests.lookups:
        if request.channel == channel:
            for get_next in id_graph([request.ids]).get_nexts:  # empty if the ids are not computed from an iterator
                return _batches(get_next.graph).get(get_next)
    for (_, looked_up), lookup in state.lookups.items():
        if looked_up == channel:
            op = lookup.ticket.op
            return _batches(op.graph).get(op)
    return None


@checked(is_training=boolean())
def get_initializer(is_training: bool) -> Optional[tf.Operation]:
    """Return the op that initializes a channel's iterators in a modified graph.

    The function uses the default graph. If the default graph was not modified, it uses the graph that was modified
    last.

    Args:
        is_training: True for the training channel, or False for the evaluation channel.

    Returns:
        The op, or None if the graph was not modified or the channel has no lookups. For one-shot iterators, the op does
        nothing.

    Raises:
        ValueError: an argument has the wrong type, or an iterator has several datasets.
        EnvironmentError: ``init`` was not called.
    """
    channel = TRAIN if is_training else EVAL
    graph = tf.compat.v1.get_default_graph()
    if not GraphState.of(graph).requests.done:
        graph = _last_modified() or graph
    requests = GraphState.of(graph).requests
    for initializers in requests.initializers.get(channel, ()):
        if len(initializers) > 1:
            raise GraphModificationError("get_initializer({}): a {} iterator can be initialized from {} datasets. "
                                         "Run one of {}".format(
                                             is_training, CHANNEL_NAMES[channel], len(initializers),
                                             ", ".join(repr(op.name) for op in initializers)))
    return requests.initializer_ops.get(channel)


def note_modified(graph: tf.Graph) -> None:
    """Record that a graph was modified."""
    _modified()[:] = [weakref.ref(graph)]


def _last_modified() -> Optional[tf.Graph]:
    return next((graph() for graph in _modified()), None)


def _modified() -> List["weakref.ref[tf.Graph]"]:
    return internals.stored_on(Process.current(), "modified", list)


def make_initializer_ops(state: GraphState, graph: tf.Graph) -> None:
    """Create the initializer op of each channel in advance, because the graph may be finalized later."""
    requests = state.requests
    for channel, iterators in requests.initializers.items():
        found = [op for initializers in iterators for op in initializers[:1]]
        if len(found) == 1:
            requests.initializer_ops[channel] = found[0]
        else:
            with graph.as_default(), outside_scopes(graph):
                requests.initializer_ops[channel] = tf.group(
                    *found, name="ascpipe/initialise_{}".format(CHANNEL_NAMES[channel]))


def extend_new_ops(state: GraphState) -> None:
    """Extend each new ``get_next`` and initializer of extended iterators.

    An op is new if no earlier call has extended it.
    """
    for iterator, extension in state.requests.extensions.items():
        for op in iterator.outputs[0].consumers() if iterator.outputs else ():
            if op.type in GET_NEXT and len(op.outputs) < len(extension.specs):
                extend_get_next(op, extension.specs)
            elif op.type == "MakeIterator":
                extend_initializer(op, extension)


@patches.GET_NEXT.by
def _get_next(self: Any, name: Optional[str] = None) -> Any:
    batch = patches.GET_NEXT.plain(self, name)
    resource = internals.resource_of(self)
    taken = [op for op in resource.consumers() if op.type in GET_NEXT]
    if taken:  # empty in a function body, which has no lookups
        op = max(taken, key=internals.order_of)
        _batches(op.graph)[op] = batch
    return batch


def _batches(graph: tf.Graph) -> Dict[tf.Operation, Any]:
    """Return a dict: ``get_next`` op of a graph -> result of the op. An attribute of the graph stores the dict."""
    return internals.stored_on(graph, "batches", dict)
