"""Global norm of gradients. The norm counts each occurrence of a key separately, as in TensorFlow.

The gradient of a table's lookups contains each row only once. TensorFlow's gradient of ``embedding_lookup`` contains a
row for each occurrence of an id, so its norm differs. In programs for Rec SDK, ``tf.clip_by_global_norm`` uses the norm
of the summed rows. In other programs, ``tf.clip_by_global_norm`` also reads occurrences (``occurrences.py``).
"""
import collections.abc
import logging
from typing import Any, List, Optional, Sequence, Tuple

import tensorflow as tf

from ascpipe.errors import OptimizerError
from ascpipe.errors.base import shown
from ascpipe.tf import internals
from ascpipe.tf.graph.occurrences import factors_of, occurrences_of
from ascpipe.tf.graph.rewiring import origin_of
from ascpipe.tf.optimizers.base import has_unique_indices
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)


def global_norm(t_list: Sequence[Any], name: Optional[str] = None) -> tf.Tensor:
    """Return the global norm of gradients. In gradients of tables, each occurrence of a key is counted separately.

    Occurrences that train no row are not counted. These are occurrences of padding keys, and of keys that are not
    admitted. The program may multiply or divide gradients of tables by scalars, for example for loss scaling, and may
    pass them into a conditional. If other ops changed a gradient, its values are used as they are. In programs for Rec
    SDK, these values contain each row only once, and a warning is logged.

    Args:
        t_list: list of tensors, IndexedSlices and None. Items that are None are ignored.
        name: name of the op.

    Returns:
        The norm, a float scalar.

    Raises:
        TypeError: ``t_list`` is not a sequence.
    """
    gradients = [gradient for gradient in _checked(t_list) if gradient is not None]
    with tf.name_scope(name or "global_norm"):
        halves = tf.stack([_half_square(gradient) for gradient in gradients])
        return tf.sqrt(tf.reduce_sum(halves) * tf.constant(2.0, halves.dtype), name="global_norm")


def clip_by_global_norm(t_list: Sequence[Any], clip_norm: Any, use_norm: Optional[tf.Tensor] = None,
                        name: Optional[str] = None) -> Tuple[List[Any], tf.Tensor]:
    """Clip gradients by ``global_norm``.

    The result is the same as ``tf.clip_by_global_norm`` in a program with ``embedding_lookup``.

    Args:
        t_list: gradients, as in ``global_norm``.
        clip_norm: maximum norm after clipping, a float greater than 0 or a scalar tensor.
        use_norm: norm of the gradients, or None to compute the norm.
        name: name of the ops.

    Returns:
        The clipped gradients, and the norm before clipping. Gradients of tables still contain each row only once.

    Raises:
        TypeError: ``t_list`` is not a sequence.
    """
    gradients = _checked(t_list)
    norm = global_norm(gradients, name) if use_norm is None else use_norm
    clipped, norm = tf.clip_by_global_norm(gradients, clip_norm, norm, name)
    return list(clipped), norm


def _checked(t_list: Sequence[Any]) -> List[Any]:
    if not isinstance(t_list, collections.abc.Sequence) or isinstance(t_list, str):
        raise OptimizerError("Argument t_list is {}, expected a list or tuple of gradients".format(shown(t_list)))
    return list(t_list)


def _half_square(gradient: Any) -> tf.Tensor:
    """Return half of the squared norm of one gradient, as ``tf.nn.l2_loss`` does."""
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.nn.l2_loss(tf.convert_to_tensor(gradient))
    if not has_unique_indices(gradient):
        return tf.nn.l2_loss(gradient.values)
    summing = origin_of(gradient.indices)
    _warn_of_ranks(summing.graph)
    factors = factors_of(gradient.values, summing)
    if factors is None:
        if not Process.current().is_plain:  # in programs of ascpipe.tf, this op is later rewired to read occurrences
            _log.warning("global_norm: the gradient %r of a table was changed by more than a scalar factor, so each of "
                         "its rows counts once in the norm, even if its key occurs several times in the batch",
                         summing.name)
        return tf.nn.l2_loss(gradient.values)
    half = tf.nn.l2_loss(occurrences_of(summing).values)
    for scalar, divides in factors:
        half = half / tf.square(scalar) if divides else half * tf.square(scalar)
    return half


def _warn_of_ranks(graph: tf.Graph) -> None:
    ranks = Process.current().configuration.rank_size
    warned: List[int] = internals.stored_on(graph, "ranks_warned_of", list)
    if ranks > 1 and not warned:
        warned.append(ranks)
        _log.warning("global_norm: each of the %d ranks counts only the occurrences in its own batch, so ranks clip by "
                     "different norms, and results differ from the results with one rank", ranks)
