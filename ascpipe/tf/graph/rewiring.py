"""Functions that build ops outside the program's scopes, and functions that replace inputs of ops."""
from typing import Iterator, Optional

import tensorflow as tf

from ascpipe.tf import internals
from ascpipe.tf.clean_up import interruptible

#: Ops that return their first input unchanged.
_PASSING = ("Identity", "StopGradient", "PreventGradient")


@interruptible
def outside_scopes(graph: tf.Graph, scope: Optional[str] = None) -> Iterator[None]:
    """Place the ops of the block on the CPU, outside all scopes, devices and control dependencies of the program.

    Args:
        scope: name scope of the ops, or None.
    """
    with tf.control_dependencies(None), graph.name_scope(None), \
            graph.colocate_with(None, ignore_existing=True), tf.device(None), tf.device("/device:CPU:0"), \
            graph.name_scope(scope):
        yield


def origin_of(tensor: tf.Tensor) -> tf.Operation:
    """Return the op that computed a tensor. Ops that return their input unchanged are skipped."""
    while tensor.op.type in _PASSING:
        tensor = tensor.op.inputs[0]
    return tensor.op


def repoint(before: tf.Tensor, after: tf.Tensor) -> None:
    """Make all ops that read the tensor ``before`` read ``after`` instead."""
    for consumer in before.consumers():
        for place, source in enumerate(consumer.inputs):
            if source is before:
                internals.rewire(consumer, place, after)
