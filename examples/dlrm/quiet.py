"""TensorFlow, imported without the warnings of its 1.15 wheel."""
import os
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings about dtypes and sizes that numpy changed after the build of this wheel
    import tensorflow as tf

tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
tf.compat.v1.disable_v2_behavior()  # after set_verbosity, because TensorFlow 1.15 logs a warning

__all__ = ["tf"]
