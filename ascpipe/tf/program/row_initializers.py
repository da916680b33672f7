"""Translates TensorFlow's initializers into the few numbers from which the native side computes initial rows.

An initial row is a function of (table seed, key) alone, so of the usual initializers nothing is run, and
nothing depends on how many rows the device holds: for the variance scaling family, whose scale comes from
the shape, a row counts as a vector of ``dim`` inputs and outputs.  Of any other one TensorFlow samples a
pool of rows, from which keys pick by hash.
"""
import contextlib
import copy
import hashlib
import logging
import math
import os
from typing import Any, Iterator, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import smart_cond
from tensorflow.python.ops import init_ops, init_ops_v2

from ascpipe.layout.initial_kinds import CONSTANT, NORMAL, POOL, TRUNCATED_NORMAL, UNIFORM

_log = logging.getLogger(__name__)

MAX_POOL_ROWS = 4096
MIN_POOL_ROWS = 64
MAX_POOL_BYTES = 4 << 20  # of rows beyond MIN_POOL_ROWS

#: Standard deviation of a normal distribution of deviation 1 that is cut at 2; TensorFlow's own constant.
_TRUNCATED_DEVIATION = 0.87962566103423978

_MAX_FLOAT = float(np.finfo(np.float32).max)
_SEED_BITS = (1 << 64) - 1

#: A graph's seed is an int64 that TensorFlow uses modulo 2^31 - 1.
_GRAPH_SEED_BITS = (1 << 31) - 1

#: A class with a ``__call__`` from elsewhere is the program's own, whatever it derives from.
_KNOWN_MODULES = (init_ops.__name__, init_ops_v2.__name__)


class RowInitializer(NamedTuple):
    """Initial rows: kind, its two parameters, and the seed (64 bits); of kind POOL also float32[rows, dim]."""

    kind: int
    a: float
    b: float
    seed: int
    pool: Optional[np.ndarray] = None


def row_initializer(initializer: Any, table_name: str, dim: int, graph_seed: Optional[int]) -> RowInitializer:
    """The numbers of a TF1 or TF2 initializer.

    Without a seed of its own, a table's seed is the hash of its name, xor the graph's seed.

    Raises:
        ValueError: parameters that TensorFlow would refuse, or that are not known before the graph runs; an
            initializer that gives no rows.
    """
    initializer = _without_tensors(initializer, table_name)
    seed = getattr(initializer, "seed", None)
    if seed is None:
        seed = int.from_bytes(hashlib.sha256(table_name.encode()).digest()[:8], "little") ^ (graph_seed or 0)
    seed = int(seed) & _SEED_BITS
    values = _constant_row(initializer, dim)
    if values is not None:
        return RowInitializer(POOL, 0.0, 0.0, seed, values)
    found = _distribution(initializer, dim)
    if found is None:
        return RowInitializer(POOL, 0.0, 0.0, seed, _sample_pool(initializer, table_name, dim, seed))
    kind, a, b = found
    if not (abs(a) <= _MAX_FLOAT and abs(b) <= _MAX_FLOAT):
        raise ValueError("emb_initializer {} has parameters {} and {}, which are not finite float32".format(
            type(initializer).__name__, a, b))
    return RowInitializer(kind, a, b, seed)


def is_initializer(value: Any) -> bool:
    """Whether a value is an instance of a TF1 or TF2 initializer class."""
    return isinstance(value, (init_ops.Initializer, init_ops_v2.Initializer))


def pool_rows(dim: int) -> int:
    """Rows of a pool of rows of ``dim`` values."""
    return max(MIN_POOL_ROWS, min(MAX_POOL_ROWS, MAX_POOL_BYTES // (4 * dim)))


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


def _distribution(initializer: Any, dim: int) -> Optional[Tuple[int, float, float]]:
    """Kind and parameters; None: it is none of the known ones."""
    if not _is_tensorflows(initializer):
        return None
    if isinstance(initializer, (init_ops.Zeros, init_ops_v2.Zeros)):
        return CONSTANT, 0.0, 0.0
    if isinstance(initializer, (init_ops.Ones, init_ops_v2.Ones)):
        return CONSTANT, 1.0, 0.0
    if isinstance(initializer, (init_ops.Constant, init_ops_v2.Constant)):
        return _of_numbers(CONSTANT, initializer.value, 0.0)
    if isinstance(initializer, (init_ops.RandomUniform, init_ops_v2.RandomUniform)):
        high = 1.0 if initializer.maxval is None else initializer.maxval
        found = _of_numbers(UNIFORM, initializer.minval, high)
        if found is not None and found[1] > found[2]:
            raise ValueError("emb_initializer: minval {} is bigger than maxval {}".format(*found[1:]))
        return found
    if isinstance(initializer, (init_ops.TruncatedNormal, init_ops_v2.TruncatedNormal)):
        return _of_numbers(TRUNCATED_NORMAL, initializer.mean, initializer.stddev)
    if isinstance(initializer, (init_ops.RandomNormal, init_ops_v2.RandomNormal)):
        return _of_numbers(NORMAL, initializer.mean, initializer.stddev)
    if isinstance(initializer, (init_ops.VarianceScaling, init_ops_v2.VarianceScaling)):
        return _variance_scaling(initializer, dim)
    if isinstance(initializer, init_ops.UniformUnitScaling):
        limit = math.sqrt(3.0 / dim) * initializer.factor
        return UNIFORM, -limit, limit
    return None


def _is_tensorflows(initializer: Any) -> bool:
    return getattr(type(initializer).__call__, "__module__", None) in _KNOWN_MODULES


def _variance_scaling(initializer: Any, dim: int) -> Tuple[int, float, float]:
    # fan_in, fan_out and their mean are all `dim` for one row.
    variance = initializer.scale / max(1.0, dim)
    if initializer.distribution in ("normal", "truncated_normal"):
        return TRUNCATED_NORMAL, 0.0, math.sqrt(variance) / _TRUNCATED_DEVIATION
    if initializer.distribution == "untruncated_normal":
        return NORMAL, 0.0, math.sqrt(variance)
    limit = math.sqrt(3.0 * variance)
    return UNIFORM, -limit, limit


def _of_numbers(kind: int, a: Any, b: Any) -> Optional[Tuple[int, float, float]]:
    """The parameters as floats; None where one of them has several values, which TensorFlow allows."""
    first = np.asarray(a, np.float64)
    second = np.asarray(b, np.float64)
    if first.size != 1 or second.size != 1:
        return None
    return kind, float(first.reshape(())), float(second.reshape(()))


def _constant_row(initializer: Any, dim: int) -> Optional[np.ndarray]:
    """float32[1, dim]: the values of a constant that has one for each element of a row; None: it is no such."""
    if not isinstance(initializer, (init_ops.Constant, init_ops_v2.Constant)) or not _is_tensorflows(initializer):
        return None
    values = np.asarray(initializer.value, np.float64)
    if values.size == 1:
        return None
    if values.size != dim:
        raise ValueError("emb_initializer {} has {} values. A row of this table has {}: give one number, or as many as "
                         "a row has; rows by their number do not exist, a row belongs to a key".format(
                             type(initializer).__name__, values.size, dim))
    row = values.astype(np.float32).reshape(1, dim)
    if not np.isfinite(row).all():
        raise ValueError("emb_initializer {} has values that are not finite".format(type(initializer).__name__))
    return row


def _without_tensors(initializer: Any, table_name: str) -> Any:
    """The initializer itself, or a copy whose tensors are the numbers that they are known to be."""
    attributes = getattr(initializer, "__dict__", {})
    tensors = {name: value for name, value in attributes.items() if tf.is_tensor(value)}
    if not tensors:
        return initializer
    numbers = {}
    for name, tensor in tensors.items():
        value = smart_cond.smart_constant_value(tensor) if isinstance(tensor, tf.Tensor) else None
        if value is None:
            raise ValueError("emb_initializer {} of table {!r}: {} is {}, whose value is known only when the graph "
                             "runs; give a number or a constant".format(
                                 type(initializer).__name__, table_name, name, tensor))
        numbers[name] = value
    initializer = copy.copy(initializer)
    vars(initializer).update(numbers)
    return initializer


def _sample_pool(initializer: Any, table_name: str, dim: int, seed: int) -> np.ndarray:
    """float32[rows, dim]: what an initializer gives for that shape, the same in every run with the same seed.

    It is run in a graph of its own; where it has no seed itself, the graph's seed, which is ``seed``, holds.

    Raises:
        ValueError: it fails, or gives something else; the text says what TensorFlow said.
    """
    kind = type(initializer).__name__
    shape = (pool_rows(dim), dim)
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
        tf.compat.v1.set_random_seed(seed & _GRAPH_SEED_BITS)
        rows = tf.convert_to_tensor(initializer(list(shape), dtype=tf.float32), tf.float32)
    with own_threads(), tf.compat.v1.Session(graph=graph, config=config) as session:
        return session.run(rows)
