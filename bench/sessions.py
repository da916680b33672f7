"""TensorFlow sessions for measurements."""
import contextlib
import os
import warnings
from typing import Any, Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of numpy's, about how this wheel spells dtypes
    import tensorflow.compat.v1 as tf
    from tensorflow.python.ops.lookup_ops import DenseHashTable

tf.logging.set_verbosity(tf.logging.ERROR)

__all__ = ["DenseHashTable", "running_pipeline", "session", "tf", "unoptimised_session"]


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
