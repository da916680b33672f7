"""The incumbent's collectives; with one rank each gives back what it was given.

Names of groups and of fusions, which other arguments are, say how ranks are joined: without effect.
"""
from typing import Any, List

import tensorflow as tf

from ascpipe.tf.validation import Choice

_REDUCTIONS = Choice("sum", "prod", "max", "min")
_ONE_RANK = Choice(1)


def allreduce(tensor: Any, reduction: str = "sum", *args: Any, **kwargs: Any) -> tf.Tensor:
    """The sum, product, maximum or minimum of a tensor over all ranks, of which there is one."""
    _REDUCTIONS.check("reduction", reduction)
    return tf.identity(tensor)


def broadcast(tensor: List[Any], root_rank: int, *args: Any, **kwargs: Any) -> List[tf.Tensor]:
    """The tensors of rank ``root_rank``, which is 0."""
    if root_rank != 0:
        raise ValueError("para root_rank: {!r} is not a rank, there is only rank 0".format(root_rank))
    return [tf.identity(one) for one in tensor]


def allgather(tensor: Any, rank_size: int, *args: Any, **kwargs: Any) -> tf.Tensor:
    """The tensors of all ranks, one after the other."""
    _ONE_RANK.check("rank_size", rank_size)
    return tf.identity(tensor)


def reduce_scatter(tensor: Any, reduction: str, rank_size: int, *args: Any, **kwargs: Any) -> tf.Tensor:
    """This rank's part of the reduced tensor, which is all of it."""
    _REDUCTIONS.check("reduction", reduction)
    _ONE_RANK.check("rank_size", rank_size)
    return tf.identity(tensor)


def all_to_all_v(send_data: Any, send_counts: Any, send_displacements: Any, recv_counts: Any,
                 recv_displacements: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
    """The elements that all ranks have sent to this one.

    Args:
        send_data: tensor of any shape, taken flat.
        send_counts, send_displacements: int[1]: how many elements go to each rank, and where they begin.
        recv_counts, recv_displacements: int[1]: how many come from each rank, and where they are put.
        args, kwargs: without effect.

    Returns:
        Flat tensor of ``recv_displacements + recv_counts`` elements; those before the displacement are zero. It is an
        error when it runs if the rank does not receive what it sends.
    """
    counts, starts, received, places = (
        tf.reshape(tf.cast(value, tf.int32), []) for value in (
            send_counts, send_displacements, recv_counts, recv_displacements))
    text = "all_to_all_v: the one rank sends and receives another number of elements:"
    with tf.control_dependencies([tf.debugging.Assert(tf.equal(counts, received), [text, counts, received])]):
        sent = tf.slice(tf.reshape(send_data, [-1]), [starts], [counts])
    return tf.pad(sent, [[places, 0]])


def all_to_all_v_c(send_data: Any, send_count_matrix: Any, rank: int, *args: Any, **kwargs: Any) -> tf.Tensor:
    """The elements that all ranks have sent to this one.

    Args:
        send_data: tensor of any shape, taken flat.
        send_count_matrix: int[1, 1]: how many elements each rank sends to each.
        rank: 0.
        args, kwargs: without effect.

    Returns:
        Flat tensor of that many elements.
    """
    Choice(0).check("rank", rank)
    counts = tf.reshape(tf.cast(send_count_matrix, tf.int32), [1])
    return tf.slice(tf.reshape(send_data, [-1]), [0], counts)
