"""Builds ops where no scope of the program reaches, and lets the readers of a tensor read another one."""
import contextlib
from typing import Iterator, Optional

import tensorflow as tf

from ascpipe.tf import internals

#: Ops that hand on their first input as it is.
_PASSING = ("Identity", "StopGradient", "PreventGradient")


@contextlib.contextmanager
def outside_scopes(graph: tf.Graph, scope: Optional[str] = None) -> Iterator[None]:
    """Build ops on the CPU whatever scopes, devices, control dependencies and conditionals the program is in.

    Args:
        graph: of the ops.
        scope: name scope of the ops; None: they have none.
    """
    with tf.control_dependencies(None), graph.name_scope(None), \
            graph.colocate_with(None, ignore_existing=True), tf.device(None), tf.device("/device:CPU:0"), \
            graph.name_scope(scope):
        yield


def origin_of(tensor: tf.Tensor) -> tf.Operation:
    """The op that a tensor comes from unchanged."""
    while tensor.op.type in _PASSING:
        tensor = tensor.op.inputs[0]
    return tensor.op


def repoint(before: tf.Tensor, after: tf.Tensor) -> None:
    """Let every op that reads one tensor read another."""
    for consumer in before.consumers():
        for place, source in enumerate(consumer.inputs):
            if source is before:
                internals.rewire(consumer, place, after)
