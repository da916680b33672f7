"""Computes the global norm of gradients as TensorFlow does: each occurrence of a key counts by itself.

The gradient of a table's lookups has each row once.  TensorFlow's of ``embedding_lookup`` has a row for each occurrence
of an id, so that the norm of the same gradient is another one, and ``tf.clip_by_global_norm`` clips elsewhere.
"""
import collections.abc
import logging
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from ascpipe.layout.words import SLOT_FROZEN
from ascpipe.tf.graph.rewiring import origin_of
from ascpipe.tf.optimizers.base import has_unique_indices

_log = logging.getLogger(__name__)


def global_norm(t_list: Sequence[Any], name: Optional[str] = None) -> tf.Tensor:
    """``tf.linalg.global_norm``; in the gradient of a table's lookups each occurrence of a key counts for itself.

    Occurrences that train no row do not count: of padding keys, and of keys that are not admitted.  A gradient of a
    table may be gated, and multiplied or divided by scalars, as for loss scaling; of one that was changed otherwise the
    values are taken as they are, each row once, and a warning says so.

    Args:
        t_list: gradients: tensors, IndexedSlices or None, which does not count.
        name: of the op.

    Returns:
        float scalar.

    Raises:
        TypeError: ``t_list`` is no sequence.
    """
    gradients = [gradient for gradient in _checked(t_list) if gradient is not None]
    with tf.name_scope(name or "global_norm"):
        halves = tf.stack([_half_square(gradient) for gradient in gradients])
        return tf.sqrt(tf.reduce_sum(halves) * tf.constant(2.0, halves.dtype), name="global_norm")


def clip_by_global_norm(t_list: Sequence[Any], clip_norm: Any, use_norm: Optional[tf.Tensor] = None,
                        name: Optional[str] = None) -> Tuple[List[Any], tf.Tensor]:
    """``tf.clip_by_global_norm`` with our ``global_norm``: clips as a program over ``embedding_lookup`` does.

    Args:
        t_list: as that of ``global_norm``.
        clip_norm: float scalar above 0, number or tensor: the norm that they have afterwards at most.
        use_norm: the norm that they have, if it is known.
        name: of the ops.

    Returns:
        The gradients, and their norm before. A gradient of a table is applied as it would be unclipped, each row once.

    Raises:
        TypeError: as ``global_norm``.
    """
    gradients = _checked(t_list)
    norm = global_norm(gradients, name) if use_norm is None else use_norm
    clipped, norm = tf.clip_by_global_norm(gradients, clip_norm, norm, name)
    return list(clipped), norm


def _checked(t_list: Sequence[Any]) -> List[Any]:
    if not isinstance(t_list, collections.abc.Sequence) or isinstance(t_list, str):
        raise TypeError("t_list is {!r}, expected a list or tuple of gradients".format(t_list))
    return list(t_list)


def _half_square(gradient: Any) -> tf.Tensor:
    """Half of the squared norm of one gradient, as ``tf.nn.l2_loss`` gives it."""
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.nn.l2_loss(tf.convert_to_tensor(gradient))
    if not has_unique_indices(gradient):
        return tf.nn.l2_loss(gradient.values)
    summing = origin_of(gradient.indices)
    factor = _factor(gradient.values, summing)
    if factor is None:
        _log.warning("global_norm: the gradient %r of a table was changed by something else than a scalar; in the norm "
                     "each of its rows counts once, also where its key is several times in the batch", summing.name)
        return tf.nn.l2_loss(gradient.values)
    halves = [tf.nn.l2_loss(_trained(summing.inputs[0], each)) for each in _occurrences(summing)]
    half = halves[0] if len(halves) == 1 else tf.add_n(halves)
    for scalar, divides in factor:
        half = half / tf.square(scalar) if divides else half * tf.square(scalar)
    return half


class _Occurrences(NamedTuple):
    """The gradients of one lookup within a sum.

    Attributes:
        restore: int32[n], which of the slots; -1: none.
        gradients: float[n, dim].
    """

    restore: tf.Tensor
    gradients: tf.Tensor


def _occurrences(summing: tf.Operation) -> List[_Occurrences]:
    count = summing.get_attr("k")
    restore, gradients = summing.inputs[1:1 + count], summing.inputs[1 + count:]
    if summing.type == "AscLookupGrad":
        dim = summing.get_attr("dim")
    else:  # of one table, as the gradient of lookup_concat makes it
        dim, = summing.get_attr("dims")
        widths = [dim * (ids.shape[1].value if ids.shape.rank == 2 else 1) for ids in restore]
        gradients = [gradients[0][:, begin:begin + width] for begin, width in zip(summing.get_attr("columns"), widths)]
    return [_Occurrences(tf.reshape(ids, [-1]), tf.reshape(rows, [-1, dim])) for ids, rows in zip(restore, gradients)]


def _trained(slots: tf.Tensor, lookup: _Occurrences) -> tf.Tensor:
    """The gradients of a lookup, zeros where they train no row."""
    is_trained = tf.logical_and(slots >= 0, slots < SLOT_FROZEN)
    is_trained = tf.concat([is_trained, [False]], axis=0)  # the last one stands for missing positions
    place = tf.where_v2(lookup.restore < 0, tf.size(slots), lookup.restore)
    return tf.where_v2(tf.expand_dims(tf.gather(is_trained, place), 1), lookup.gradients, tf.zeros([]))


def _factor(values: tf.Tensor, summing: tf.Operation) -> Optional[List[Tuple[tf.Tensor, bool]]]:
    """What a sum was multiplied by to become ``values``: scalars, and whether it was divided by them; None: by other
    things."""
    found: List[Tuple[tf.Tensor, bool]] = []
    while True:
        op = origin_of(values)
        if op is summing:
            return found
        if op.type == "Neg":
            values = op.inputs[0]
        elif op.type == "Mul" and op.inputs[0].shape.rank == 0:
            found.append((op.inputs[0], False))
            values = op.inputs[1]
        elif op.type in ("Mul", "RealDiv") and op.inputs[1].shape.rank == 0:
            found.append((op.inputs[1], op.type == "RealDiv"))
            values = op.inputs[0]
        else:
            return None
