"""``tensorflow.contrib``, which TensorFlow 2.15 does not have: tests that need it are skipped there."""
import functools
import warnings
from typing import Any

import pytest
import tensorflow as tf


def contrib(name: str) -> Any:
    """A module of ``tensorflow.contrib``, imported by its first user: it takes seconds."""
    if not hasattr(tf, "contrib"):
        pytest.skip("TensorFlow {} has no tensorflow.contrib".format(tf.__version__))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return functools.reduce(getattr, name.split("."), tf.contrib)
