"""Finds the op that made a tensor, and lets all readers of a tensor read another one."""
import tensorflow as tf

from ascpipe.tf import internals

#: Ops that hand on their first input as it is.
_PASSING = ("Identity", "StopGradient", "PreventGradient")


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
