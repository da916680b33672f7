"""The two releases of TensorFlow: their behavior, and the places of their modules."""
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
