"""Ops that have special kernels on an Ascend card; ascpipe uses TensorFlow's."""
from typing import Any, Optional

import tensorflow as tf


def dropout(x: Any, keep_prob: Any, noise_shape: Any = None, seed: Optional[int] = None,
            name: Optional[str] = None) -> tf.Tensor:
    """Elements of a tensor, each kept with a probability and divided by it, else 0.

    Args:
        x: float tensor.
        keep_prob: number or scalar tensor in (0, 1].
        noise_shape: what is kept together, as ``tf.nn.dropout`` has it.
        seed: of the random numbers.
        name: of the op.

    Returns:
        Tensor like ``x``.

    Raises:
        ValueError: a ``keep_prob`` out of range, if it is a number.
    """
    return tf.nn.dropout(x, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed, name=name)
