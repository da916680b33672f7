"""TensorFlow, imported without the warnings that its 1.15 wheel prints on every start."""
import os
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
with warnings.catch_warnings():
    # np_resource and friends: numpy deprecated a dtype spelling after this wheel was built.
    warnings.simplefilter("ignore", FutureWarning)
    warnings.simplefilter("ignore", DeprecationWarning)
    import tensorflow as tf

tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)

__all__ = ["tf"]
