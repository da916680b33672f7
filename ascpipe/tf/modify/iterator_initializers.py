"""``get_initializer``: the op that initialises the iterators whose datasets carry ids."""
from typing import Optional

import tensorflow as tf

from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.scopes import outside_scopes
from ascpipe.tf.graph.streams import CHANNEL_NAMES
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import boolean, checked


@checked(is_training=boolean())
def get_initializer(is_training: bool) -> Optional[tf.Operation]:
    """The op that initialises the iterators of a channel, once the graph was modified; the program's own does it, too.

    Of the default graph, or where that was not modified, of the graph that was modified last.

    Args:
        is_training: the channel.

    Returns:
        The op; it does nothing for one-shot iterators. None: the graph was not modified, or nothing is looked up in
        this channel.

    Raises:
        ValueError: an argument of the wrong type; an iterator that can be initialised from several datasets.
        EnvironmentError: ``init`` was not called.
    """
    channel = TRAIN if is_training else EVAL
    graph = tf.compat.v1.get_default_graph()
    if not GraphState.of(graph).requests.done:
        graph = Process.current().modified_graph() or graph
    requests = GraphState.of(graph).requests
    for initializers in requests.initializers.get(channel, ()):
        if len(initializers) > 1:
            raise ValueError("get_initializer({}): a {} iterator can be initialised from {} datasets; run one of {}"
                             .format(is_training, CHANNEL_NAMES[channel], len(initializers),
                                     ", ".join(repr(op.name) for op in initializers)))
    return requests.initializer_ops.get(channel)


def make_initializer_ops(state: GraphState, graph: tf.Graph) -> None:
    """Make the op of each channel; now, as the graph may be finalized later."""
    requests = state.requests
    for channel, iterators in requests.initializers.items():
        found = [op for initializers in iterators for op in initializers[:1]]
        if len(found) == 1:
            requests.initializer_ops[channel] = found[0]
        else:
            with graph.as_default(), outside_scopes(graph):
                requests.initializer_ops[channel] = tf.group(
                    *found, name="ascpipe/initialise_{}".format(CHANNEL_NAMES[channel]))
