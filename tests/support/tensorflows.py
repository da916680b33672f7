"""The two releases of TensorFlow: their behavior, and their results.

TensorFlow 1.15 gives the bits of ascpipe. TensorFlow 2.15 sums bags and applies Adagrad and FTRL in another order, so
its results differ by rounding errors.
"""
import numpy as np
import tensorflow as tf

HAS_OUR_BITS = tf.__version__.startswith("1.")
WITHIN = 0 if HAS_OUR_BITS else 1e-5  #: part of the largest number


def require_as_tensorflow(found, expected, err_msg=""):
    """The same bits with TensorFlow 1.15; with TensorFlow 2.15, differences are rounding errors."""
    found, expected = np.asarray(found), np.asarray(expected)
    if HAS_OUR_BITS:
        np.testing.assert_array_equal(found, expected, err_msg=err_msg)
    else:
        largest = np.abs(expected).max() if expected.size else 0
        np.testing.assert_allclose(found, expected, rtol=WITHIN, atol=WITHIN * largest, err_msg=err_msg)


def use_tensorflow_1():
    """Switch off the behavior of TensorFlow 2. TensorFlow 1.15 does not have it, and would log a warning."""
    if not HAS_OUR_BITS:
        tf.compat.v1.disable_v2_behavior()
