"""The two releases of TensorFlow: their behavior, and the places of their modules."""
import re
from typing import Any

import tensorflow as tf

IS_TENSORFLOW_1 = tf.__version__.startswith("1.")
NO_DEEPCTR = "TensorFlow 2.15 has no tensorflow.python.keras.layers.LSTM, which DeepCTR 0.9.3 imports"


def use_tensorflow_1() -> None:
    """Switch off the behavior of TensorFlow 2. TensorFlow 1.15 does not have it, and would log a warning."""
    if not IS_TENSORFLOW_1:
        tf.compat.v1.disable_v2_behavior()


def keras_optimizers() -> Any:
    """Return the module of the Keras optimizers that are used in graphs."""
    return getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)


def not_read_ahead(dataset: Any) -> Any:
    """Return a dataset to which TensorFlow 2.15 adds no prefetch, and whose ``map`` it does not run in advance."""
    options = tf.data.Options()
    if not IS_TENSORFLOW_1:
        options.experimental_optimization.inject_prefetch = False
        options.experimental_optimization.map_parallelization = False
    return dataset.with_options(options)


def text_of(error: tf.errors.OpError) -> str:
    """Return the text of an op's error. TensorFlow 2.15 writes before it where the program created the op."""
    return re.sub(r"\AGraph execution error:\n\nDetected at node .*?\nNode: '[^']*'\n", "", error.message, flags=re.S)
