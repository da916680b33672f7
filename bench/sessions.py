"""TensorFlow sessions for measurements, and what programs in them have in common."""
import contextlib
import time
from typing import Any, Iterator

import numpy as np

from examples.dlrm.quiet import tf as _tensorflow  # before any other import of TensorFlow, which would warn

tf = _tensorflow.compat.v1

from tensorflow.python.ops.lookup_ops import DenseHashTable, MutableHashTable  # noqa: E402

__all__ = ["DenseHashTable", "MutableHashTable", "after", "running_pipeline", "session", "tf", "unoptimised_session"]


@contextlib.contextmanager
def running_pipeline() -> Iterator[None]:
    """What lies between ``init`` and its end, with a private daemon."""
    from mx_rec.util.initialize import init, terminate_config_initializer

    init()
    try:
        yield
    finally:
        terminate_config_initializer()


def unoptimised_session(*, threads: int) -> Any:
    """A session that runs the graph as it was built: nothing is folded, merged or pruned but by need."""
    config = _config(threads)
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(config=config)


def session(*, threads: int) -> Any:
    """A session as users have it, with ``threads`` in each pool."""
    return tf.Session(config=_config(threads))


def _config(threads: int) -> Any:
    return tf.ConfigProto(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads)


def after(seconds: float, tensor: Any) -> Any:
    """A tensor, so much later; no processor is busy until then."""
    def wait(one: np.ndarray) -> np.ndarray:
        time.sleep(seconds)
        return one

    waited = tf.py_func(wait, [tf.reshape(tensor, [-1])[:1]], tensor.dtype)
    with tf.control_dependencies([waited]):
        return tf.identity(tensor)
