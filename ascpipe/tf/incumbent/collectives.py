"""Collectives of Rec SDK, implemented with Horovod. With one rank, each collective returns its input.

With several ranks, the first call starts Horovod if it is not running, and raises the errors of ``started``
(``ascpipe/tf/running/horovod.py``). All ranks must make the same calls in the same order. Other arguments, such as
group names, are ignored.
"""
from typing import Any, List, Optional

import tensorflow as tf

from ascpipe.errors import ArgumentError
from ascpipe.errors.base import shown
from ascpipe.tf.running import horovod
from ascpipe.tf.running.horovod import Started
from ascpipe.tf.validation import Choice

_REDUCTIONS = Choice("sum", "prod", "max", "min")
_HOROVOD_OPS = {"sum": "Sum", "prod": "Product", "max": "Max", "min": "Min"}


def allreduce(tensor: Any, reduction: str = "sum", *args: Any, **kwargs: Any) -> tf.Tensor:
    """Return the sum, product, maximum or minimum of a tensor over all ranks. The tensor must have the same shape on
    all ranks.
    """
    _REDUCTIONS.check("reduction", reduction)
    joined = horovod.joined()
    if joined is None:
        return tf.identity(tensor)
    return joined.module.allreduce(tf.convert_to_tensor(tensor), op=getattr(joined.module, _HOROVOD_OPS[reduction]))


def broadcast(tensor: List[Any], root_rank: int, *args: Any, **kwargs: Any) -> List[tf.Tensor]:
    """Return the tensors of rank ``root_rank``. The shapes of the tensors must be equal on all ranks."""
    joined = horovod.joined()
    size = 1 if joined is None else joined.size
    if isinstance(root_rank, bool) or root_rank not in range(size):
        raise ArgumentError("argument root_rank: {} is not a rank. {}".format(
            shown(root_rank), "The only rank is 0" if size == 1 else "The ranks are 0 to {}".format(size - 1)))
    if joined is None:
        return [tf.identity(one) for one in tensor]
    return [joined.module.broadcast(tf.convert_to_tensor(one), root_rank) for one in tensor]


def allgather(tensor: Any, rank_size: int, *args: Any, **kwargs: Any) -> tf.Tensor:
    """Concatenate the tensors of all ranks along the first dimension. The first dimension may differ between ranks."""
    joined = horovod.joined()
    _check_size(joined, rank_size)
    if joined is None:
        return tf.identity(tensor)
    return joined.module.allgather(tf.convert_to_tensor(tensor))


def reduce_scatter(tensor: Any, reduction: str, rank_size: int, *args: Any, **kwargs: Any) -> tf.Tensor:
    """Reduce a tensor over N ranks, and return this rank's part of the result.

    The first dimension is divided into N equal parts. The op fails at run time if N does not divide the first
    dimension.
    """
    _REDUCTIONS.check("reduction", reduction)
    joined = horovod.joined()
    _check_size(joined, rank_size)
    if joined is None:
        return tf.identity(tensor)
    # Horovod's reducescatter supports only sums and means.
    reduced = allreduce(tensor, reduction)
    rows = tf.shape(reduced)[0]
    text = "reduce_scatter: the number of ranks does not divide the first dimension. Number of ranks, first dimension:"
    with tf.control_dependencies([tf.debugging.Assert(tf.equal(rows % joined.size, 0), [text, joined.size, rows])]):
        part = rows // joined.size
    mine = reduced[part * joined.rank:part * (joined.rank + 1)]
    known = tf.compat.dimension_value(reduced.shape[0])
    mine.set_shape([None if known is None else known // joined.size, *reduced.shape[1:]])
    return mine


def all_to_all_v(send_data: Any, send_counts: Any, send_displacements: Any, recv_counts: Any,
                 recv_displacements: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
    """Exchange elements between N ranks, and return the elements that were sent to this rank.

    The op fails at run time if the number of elements that a rank sends differs from the number that this rank expects.

    Args:
        send_data: tensor of any shape. It is flattened.
        send_counts, send_displacements: int[N], number and first index of the elements for each rank.
        recv_counts, recv_displacements: int[N], number and first output index of the elements from each rank. Indices
            must increase with the rank. Gaps are allowed.

    Returns:
        Flat tensor of the received elements. It ends with the last rank's elements. Gaps contain zeros.
    """
    joined = horovod.joined()
    size = 1 if joined is None else joined.size
    counts, starts, received, places = (
        tf.reshape(tf.cast(value, tf.int32), [size]) for value in (
            send_counts, send_displacements, recv_counts, recv_displacements))
    flat = tf.reshape(send_data, [-1])
    sent = tf.concat([tf.slice(flat, starts[rank:rank + 1], counts[rank:rank + 1]) for rank in range(size)], 0)
    if joined is None:
        arrived = sent
        truly = counts
        text = "all_to_all_v: the only rank sends other numbers of elements than it receives. Sent, received:"
    else:
        arrived, truly = joined.module.alltoall(sent, splits=counts)
        text = "all_to_all_v: ranks send other numbers of elements than this rank expects. Sent, expected:"
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(tf.equal(truly, received)),
                                                      [text, truly, received], summarize=size)]):
        parts = tf.split(arrived, received) if size > 1 else [tf.identity(arrived)]
    laid = []
    end = tf.constant(0)
    for rank, part in enumerate(parts):
        laid.append(tf.pad(part, [[places[rank] - end, 0]]))
        end = places[rank] + received[rank]
    return tf.concat(laid, 0) if size > 1 else laid[0]


def all_to_all_v_c(send_data: Any, send_count_matrix: Any, rank: int, *args: Any, **kwargs: Any) -> tf.Tensor:
    """Exchange elements between N ranks according to a matrix of counts.

    Return the elements that were sent to this rank. The op fails at run time if the ranks' matrices disagree about the
    elements that are sent to this rank.

    Args:
        send_data: tensor of any shape. It is flattened. Elements are ordered by the number of the receiving rank.
        send_count_matrix: int[N, N]. Element [i, j] is the number of elements that rank i sends to rank j.
        rank: rank of this process.

    Returns:
        Flat tensor with the elements in the order of the sending ranks.
    """
    joined = horovod.joined()
    size = 1 if joined is None else joined.size
    Choice(0 if joined is None else joined.rank).check("rank", rank)
    counts = tf.reshape(tf.cast(send_count_matrix, tf.int32), [size, size])
    sent = tf.slice(tf.reshape(send_data, [-1]), [0], tf.reshape(tf.reduce_sum(counts[rank]), [1]))
    if joined is None:
        return sent
    arrived, truly = joined.module.alltoall(sent, splits=counts[rank])
    text = "all_to_all_v_c: ranks send other numbers of elements than the matrix of this rank has. Sent, expected:"
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(tf.equal(truly, counts[:, rank])),
                                                      [text, truly, counts[:, rank]], summarize=size)]):
        return tf.identity(arrived)


def _check_size(joined: Optional[Started], rank_size: int) -> None:
    Choice(1 if joined is None else joined.size).check("rank_size", rank_size)
