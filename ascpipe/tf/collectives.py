"""The incumbent's collectives; with one rank each gives back what it was given."""
from typing import Any, List

import tensorflow as tf

from ascpipe.tf.validation import Choice


def allreduce(tensor: Any, reduction: str, *args: Any, **kwargs: Any) -> tf.Tensor:
    """The sum, product, maximum or minimum of a tensor over all ranks, of which there is one."""
    Choice("sum", "prod", "max", "min").check("reduction", reduction)
    return tf.identity(tensor)


def broadcast(tensors: List[Any], root_rank: int, *args: Any, **kwargs: Any) -> List[tf.Tensor]:
    """The tensors of rank ``root_rank``, which is 0."""
    if root_rank != 0:
        raise ValueError("para root_rank: {!r} is not a rank, there is only rank 0".format(root_rank))
    return [tf.identity(tensor) for tensor in tensors]
