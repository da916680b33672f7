"""Search for the ops that compute given tensors, and for the ops that depend on given ops."""
from typing import Callable, Collection, Iterable, List, Set

import tensorflow as tf

from ascpipe.tf import internals


def ops_feeding(tensors: Iterable[tf.Tensor], ends: Collection[str] = ()) -> List[tf.Operation]:
    """Return the ops on which tensors depend through data inputs, without duplicates.

    Args:
        ends: types of ops at which the search stops.
    """
    return _found(tensors, lambda op: [] if op.type in ends else list(op.inputs))


def ops_reached_by_gradients(tensors: Iterable[tf.Tensor]) -> List[tf.Operation]:
    """Return the ops to which gradients flow from tensors, without duplicates.

    Ops at which the gradients end are included.
    """
    def inputs_of(op: tf.Operation) -> List[tf.Tensor]:
        if op.type == "StopGradient" or not internals.is_differentiable(op):
            return []
        return [given for given in op.inputs if given.dtype.is_floating or given.dtype.is_complex]

    return _found(tensors, inputs_of)


def ops_behind(ops: Iterable[tf.Operation], *, by_control: bool) -> Set[tf.Operation]:
    """Return ``ops``, and all ops that depend on the results of ``ops``.

    Args:
        by_control: True to include ops that depend on ``ops`` through control inputs.
    """
    found: Set[tf.Operation] = set()
    waiting = list(ops)
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting.extend(user for output in op.outputs for user in output.consumers())
            waiting.extend(internals.waiting_for(op) if by_control else ())
    return found


def _found(tensors: Iterable[tf.Tensor], inputs_of: Callable[[tf.Operation], List[tf.Tensor]]) -> List[tf.Operation]:
    found: List[tf.Operation] = []
    seen: Set[tf.Operation] = set()
    waiting = [tensor.op for tensor in tensors]
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        found.append(op)
        waiting.extend(tensor.op for tensor in inputs_of(op))
    return found
