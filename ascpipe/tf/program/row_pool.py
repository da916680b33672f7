"""Samples initial rows that only TensorFlow can compute into a pool, from which keys pick by hash."""
import contextlib
import logging
import os
from typing import Any, Iterator, Tuple

import numpy as np
import tensorflow as tf

_log = logging.getLogger(__name__)

MAX_ROWS = 4096
MIN_ROWS = 64
MAX_BYTES = 4 << 20  # of rows beyond MIN_ROWS

#: A graph's seed is an int64 that TensorFlow uses modulo 2^31 - 1.
_SEED_BITS = (1 << 31) - 1


def pool_rows(dim: int) -> int:
    """Rows of a pool of rows of ``dim`` values."""
    return max(MIN_ROWS, min(MAX_ROWS, MAX_BYTES // (4 * dim)))


def sample(initializer: Any, table_name: str, dim: int, seed: int) -> np.ndarray:
    """float32[rows, dim]: what an initializer gives for that shape, the same in every run with the same seed.

    It is run in a graph of its own; where it has no seed itself, the graph's seed, which is ``seed``, holds.

    Raises:
        ValueError: it fails, or gives something else; the text says what TensorFlow said.
    """
    kind, shape = type(initializer).__name__, (pool_rows(dim), dim)
    try:
        pool = _run(initializer, shape, seed)
    except Exception as error:  # whatever the program's own initializer raises
        raise ValueError("emb_initializer {} of table {!r} gives no rows of shape {}: {}: {}".format(
            kind, table_name, list(shape), type(error).__name__, error)) from error
    if pool.shape != shape:
        raise ValueError("emb_initializer {} of table {!r} gives shape {} for rows of shape {}".format(
            kind, table_name, list(pool.shape), list(shape)))
    if not np.isfinite(pool).all():
        raise ValueError("emb_initializer {} of table {!r} gives values that are not finite".format(kind, table_name))
    _log.warning("table %r: emb_initializer %s is sampled once into a pool of %d rows, and each key begins with the "
                 "one that its hash picks; many keys begin alike", table_name, kind, shape[0])
    return pool


def _run(initializer: Any, shape: Tuple[int, int], seed: int) -> np.ndarray:
    # One thread, so that sums are always made in the same order.
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, use_per_session_threads=True,
        allow_soft_placement=True, device_count={"GPU": 0})
    graph = tf.Graph()
    with graph.as_default():
        tf.compat.v1.set_random_seed(seed & _SEED_BITS)
        rows = tf.convert_to_tensor(initializer(list(shape), dtype=tf.float32), tf.float32)
    with own_threads(), tf.compat.v1.Session(graph=graph, config=config) as session:
        return session.run(rows)


@contextlib.contextmanager
def own_threads() -> Iterator[None]:
    """Sessions opened inside leave alone how many threads later ones have.

    The first session of a process makes one thread pool for all of them, of its own size: ours would have the
    program train on one thread. TensorFlow reads this variable with the first session, and then gives each
    session the threads of its own configuration; where there was one before, the pool is its.
    """
    name = "TF_OVERRIDE_GLOBAL_THREADPOOL"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
