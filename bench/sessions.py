"""TensorFlow sessions for measurements, and functions for programs in these sessions."""
import contextlib
import time
from typing import Any, Iterator

import numpy as np

from examples.dlrm.quiet import tf as _tensorflow  # must be the first import of TensorFlow, to suppress its warnings

tf = _tensorflow.compat.v1

from tensorflow.python.ops.lookup_ops import DenseHashTable, MutableHashTable  # noqa: E402

__all__ = ["DenseHashTable", "MutableHashTable", "after", "running_pipeline", "session", "tf", "unoptimised_session"]


@contextlib.contextmanager
def running_pipeline() -> Iterator[None]:
    """Run the block between ``init`` and the end of the pipeline, with a private daemon."""
    from mx_rec.util.initialize import init, terminate_config_initializer

    init()
    try:
        yield
    finally:
        terminate_config_initializer()


def unoptimised_session(*, threads: int) -> Any:
    """Return a session that runs the graph without optimisation. TensorFlow only prunes unneeded ops."""
    config = _config(threads)
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(config=config)


def session(*, threads: int) -> Any:
    """Return a session with default optimisation and ``threads`` in each pool."""
    return tf.Session(config=_config(threads))


def _config(threads: int) -> Any:
    return tf.ConfigProto(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads)


def after(seconds: float, tensor: Any) -> Any:
    """Return a tensor that is delayed by ``seconds``. The delay uses no processor time."""
    def wait(one: np.ndarray) -> np.ndarray:
        time.sleep(seconds)
        return one

    waited = tf.py_func(wait, [tf.reshape(tensor, [-1])[:1]], tensor.dtype)
    with tf.control_dependencies([waited]):
        return tf.identity(tensor)
