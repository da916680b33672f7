"""TensorFlow, imported without the warnings that its 1.15 wheel prints on every start."""
import os
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about dtypes and sizes that numpy changed after this wheel was built
    import tensorflow as tf

tf.compat.v1.disable_v2_behavior()
tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)

__all__ = ["tf"]
