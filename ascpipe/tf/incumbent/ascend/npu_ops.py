"""Implementation, with TensorFlow's ops, of ops that have special kernels on an Ascend card."""
from typing import Any, Optional

import tensorflow as tf


def dropout(x: Any, keep_prob: Any, noise_shape: Any = None, seed: Optional[int] = None,
            name: Optional[str] = None) -> tf.Tensor:
    """Set random elements of a tensor to 0, and divide the kept elements by ``keep_prob``.

    Args:
        x: float tensor.
        keep_prob: probability of keeping an element, a number or scalar tensor in (0, 1].
        noise_shape, seed, name: the same as in ``tf.nn.dropout``.

    Raises:
        ValueError: ``keep_prob`` is a number that is out of range.
    """
    return tf.nn.dropout(x, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed, name=name)
