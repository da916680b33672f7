"""Search for the ops that compute given tensors."""
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
    """Return the ops that gradients of tensors reach, without duplicates.

    Ops at which the gradients end are included.
    """
    def inputs_of(op: tf.Operation) -> List[tf.Tensor]:
        if op.type == "StopGradient" or not internals.is_differentiable(op):
            return []
        return [given for given in op.inputs if given.dtype.is_floating or given.dtype.is_complex]

    return _found(tensors, inputs_of)


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
