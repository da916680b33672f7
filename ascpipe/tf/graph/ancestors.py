"""Finds the ops that tensors are made of."""
from typing import Collection, Iterable, List, Set

import tensorflow as tf


def ops_behind(tensors: Iterable[tf.Tensor], ends: Collection[str] = ()) -> List[tf.Operation]:
    """The ops that tensors are made of, each once, from the tensors on; control inputs are none.

    Args:
        tensors: in one graph.
        ends: types of ops behind which nothing is looked for.
    """
    found: List[tf.Operation] = []
    seen: Set[tf.Operation] = set()
    waiting = [tensor.op for tensor in tensors]
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        found.append(op)
        if op.type not in ends:
            waiting.extend(tensor.op for tensor in op.inputs)
    return found
