"""``lookup_concat``, which concatenates looked-up rows and other columns."""
from typing import Any, Optional, Sequence

import tensorflow as tf

from ascpipe.tf.validation import ListOf, Numbers, Text, checked


@checked(values=ListOf(Numbers()), name=Text(1, 255, optional=True))
def lookup_concat(values: Sequence[Any], name: Optional[str] = None) -> tf.Tensor:
    """Return ``tf.concat(values, axis=1)``.

    In the graph of a step, a single op looks up all rows that are inputs of a concat, and writes them directly into the
    result. ascpipe also creates this op for ``tf.concat``, so programs do not need this function.

    Args:
        values: list or tuple of float32[batch, columns].
        name: name of the op.

    Returns:
        float32[batch, sum of the columns].

    Raises:
        ValueError: an argument has the wrong type.
    """
    return tf.concat(values, axis=1, name=name)
