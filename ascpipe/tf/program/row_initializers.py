"""Conversion of TensorFlow's initializers to parameters from which the native library computes initial rows.

An initial row depends only on the table's seed and the key. The native library itself implements constant, uniform,
normal and variance scaling initializers. The scale of a variance scaling initializer is computed with ``dim`` inputs
and ``dim`` outputs. For any other initializer, TensorFlow samples a pool of rows. The hash of a key selects the initial
row from the pool.
"""
import copy
import hashlib
import logging
import math
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import smart_cond

from ascpipe.errors import RowInitializerError
from ascpipe.layout.initial_kinds import CONSTANT, NORMAL, POOL, TRUNCATED_NORMAL, UNIFORM
from ascpipe.tf import internals
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.thread_pools import without_shared_thread_pool

_log = logging.getLogger(__name__)

MAX_POOL_ROWS = 4096
MIN_POOL_ROWS = 64
MAX_POOL_BYTES = 4 << 20  # exceeded only if MIN_POOL_ROWS rows need more bytes

#: Standard deviation of a standard normal distribution that is truncated at 2, as in TensorFlow.
_TRUNCATED_DEVIATION = 0.87962566103423978

_MAX_FLOAT = float(np.finfo(np.float32).max)
_SEED_BITS = (1 << 64) - 1

#: TensorFlow uses the int64 seed of a graph modulo 2^31 - 1.
_GRAPH_SEED_BITS = (1 << 31) - 1


class RowInitializer(NamedTuple):
    """Parameters of initial rows.

    The parameters are the kind, two numbers ``a`` and ``b`` that depend on the kind, and a seed of 64 bits. For the
    kind POOL, ``pool`` is float32[rows, dim].
    """

    kind: int
    a: float
    b: float
    seed: int
    pool: Optional[np.ndarray] = None


def row_initializer(initializer: Any, table_name: str, dim: int, graph_seed: Optional[int]) -> RowInitializer:
    """Return the parameters of a TF1 or TF2 initializer.

    If the initializer has no seed, the seed is a hash of the table's name, XORed with the graph's seed.

    Raises:
        ValueError: TensorFlow refuses the parameters, the parameters are unknown before the graph runs, or the
            initializer does not return rows.
    """
    initializer = _without_tensors(initializer, table_name)
    seed = getattr(initializer, "seed", None)
    if seed is None:
        seed = int.from_bytes(hashlib.sha256(table_name.encode()).digest()[:8], "little") ^ (graph_seed or 0)
    seed = int(seed) & _SEED_BITS
    values = _constant_row(initializer, table_name, dim)
    if values is not None:
        return RowInitializer(POOL, 0.0, 0.0, seed, values)
    found = _distribution(initializer, table_name, dim)
    if found is None:
        return RowInitializer(POOL, 0.0, 0.0, seed, _sample_pool(initializer, table_name, dim, seed))
    kind, a, b = found
    if not (abs(a) <= _MAX_FLOAT and abs(b) <= _MAX_FLOAT):
        raise _error(initializer, table_name, "has the parameters {} and {}, which are not finite float32 numbers"
                     .format(a, b))
    return RowInitializer(kind, a, b, seed)


def is_initializer(value: Any) -> bool:
    """Return whether a value is an instance of an initializer class of TensorFlow or Keras."""
    return isinstance(value, internals.initializer_classes("Initializer"))


def pool_rows(dim: int) -> int:
    """Return the number of rows of a pool whose rows have ``dim`` values."""
    return max(MIN_POOL_ROWS, min(MAX_POOL_ROWS, MAX_POOL_BYTES // (4 * dim)))


def _distribution(initializer: Any, table_name: str, dim: int) -> Optional[Tuple[int, float, float]]:
    """Return the kind and parameters of an initializer, or None if a pool of rows must be sampled."""
    if not _is_tensorflows(initializer):
        return None
    if isinstance(initializer, internals.initializer_classes("Zeros")):
        return CONSTANT, 0.0, 0.0
    if isinstance(initializer, internals.initializer_classes("Ones")):
        return CONSTANT, 1.0, 0.0
    if isinstance(initializer, internals.initializer_classes("Constant")):
        return _of_numbers(CONSTANT, initializer.value, 0.0)
    if isinstance(initializer, internals.initializer_classes("RandomUniform")):
        high = 1.0 if initializer.maxval is None else initializer.maxval
        found = _of_numbers(UNIFORM, initializer.minval, high)
        if found is not None and found[1] > found[2]:
            raise _error(initializer, table_name, "has minval {}, which is bigger than maxval {}".format(*found[1:]))
        return found
    if isinstance(initializer, internals.initializer_classes("TruncatedNormal")):
        return _of_numbers(TRUNCATED_NORMAL, initializer.mean, initializer.stddev)
    if isinstance(initializer, internals.initializer_classes("RandomNormal")):
        return _of_numbers(NORMAL, initializer.mean, initializer.stddev)
    if isinstance(initializer, internals.initializer_classes("VarianceScaling")):
        return _variance_scaling(initializer, dim)
    if isinstance(initializer, internals.initializer_classes("UniformUnitScaling")):
        limit = math.sqrt(3.0 / dim) * initializer.factor
        return UNIFORM, -limit, limit
    return None


def _is_tensorflows(initializer: Any) -> bool:
    """Return whether an initializer uses TensorFlow's ``__call__``.

    A subclass in the program may override the method.
    """
    return getattr(type(initializer).__call__, "__module__", None) in internals.INITIALIZER_MODULES


def _variance_scaling(initializer: Any, dim: int) -> Tuple[int, float, float]:
    # For one row, fan_in, fan_out and their mean are all `dim`.
    variance = initializer.scale / max(1.0, dim)
    if initializer.distribution in ("normal", "truncated_normal"):
        return TRUNCATED_NORMAL, 0.0, math.sqrt(variance) / _TRUNCATED_DEVIATION
    if initializer.distribution == "untruncated_normal":
        return NORMAL, 0.0, math.sqrt(variance)
    limit = math.sqrt(3.0 * variance)
    return UNIFORM, -limit, limit


def _of_numbers(kind: int, a: Any, b: Any) -> Optional[Tuple[int, float, float]]:
    """Return the kind and the parameters as floats, or None if a parameter has several values."""
    first = np.asarray(a, np.float64)
    second = np.asarray(b, np.float64)
    if first.size != 1 or second.size != 1:
        return None
    return kind, float(first.reshape(())), float(second.reshape(()))


def how_to_start_with_rows() -> str:
    """Return advice for a program whose table should start with the rows of a matrix."""
    if Process.is_initialised() and Process.current().is_plain:
        return ("Save the keys and rows of the matrix as keys.npy and rows.npy in a directory, and pass the directory: "
                "asc.create_table(..., pretrained=DIRECTORY)")
    return "Save a checkpoint, and add the rows to it: ascpipe checkpoint import"


def _constant_row(initializer: Any, table_name: str, dim: int) -> Optional[np.ndarray]:
    """Return the row of a constant initializer that has ``dim`` values, as float32[1, dim].

    Return None for other initializers.
    """
    if not isinstance(initializer, internals.initializer_classes("Constant")) or not _is_tensorflows(initializer):
        return None
    values = np.asarray(initializer.value, np.float64)
    if values.size == 1:
        return None
    if values.size != dim:
        raise _error(initializer, table_name, "has {} values, but a row of the table has {}. Pass one number, or the "
                     "values of one row. Rows belong to keys, so a matrix with one row for each id is not supported. "
                     "{}".format(values.size, dim, how_to_start_with_rows()))
    row = values.astype(np.float32).reshape(1, dim)
    if not np.isfinite(row).all():
        raise _error(initializer, table_name, "has values that are not finite float32 numbers")
    return row


def _without_tensors(initializer: Any, table_name: str) -> Any:
    """Return the initializer, or a copy of the initializer in which constant values replace tensors."""
    attributes = getattr(initializer, "__dict__", {})
    tensors = {name: value for name, value in attributes.items() if tf.is_tensor(value)}
    if not tensors:
        return initializer
    numbers = {}
    for name, tensor in tensors.items():
        value = smart_cond.smart_constant_value(tensor) if isinstance(tensor, tf.Tensor) else None
        if value is None:
            raise _error(initializer, table_name, "has {}={}, whose value is known only when the graph runs. Pass a "
                         "number or a constant".format(name, tensor))
        numbers[name] = value
    initializer = copy.copy(initializer)
    vars(initializer).update(numbers)
    return initializer


def _sample_pool(initializer: Any, table_name: str, dim: int, seed: int) -> np.ndarray:
    """Sample a pool of rows, float32[rows, dim], with an initializer. Runs with the same seed sample the same rows.

    The initializer runs in a separate graph with the graph seed ``seed``. This seed is used if the initializer has no
    seed.

    Raises:
        ValueError: the initializer fails, returns another shape, or returns values that are not finite.
    """
    shape = (pool_rows(dim), dim)
    try:
        pool = _run(initializer, shape, seed)
    except Exception as error:  # an initializer of the program may raise any error
        raise _error(initializer, table_name, "failed to return rows of shape {}: {}: {}".format(
            list(shape), type(error).__name__, error)) from error
    if pool.shape != shape:
        raise _error(initializer, table_name, "returned values of shape {}, expected shape {}".format(
            list(pool.shape), list(shape)))
    if not np.isfinite(pool).all():
        raise _error(initializer, table_name, "returned values that are not finite")
    _log.warning("Table %r: initializer %s is sampled once into a pool of %d rows. The initial row of a key is "
                 "selected by its hash, so many keys start with equal rows",
                 table_name, type(initializer).__name__, shape[0])
    return pool


def _error(initializer: Any, table_name: str, what: str) -> RowInitializerError:
    return RowInitializerError("Initializer {} of table {!r} {}".format(type(initializer).__name__, table_name, what))


def _run(initializer: Any, shape: Tuple[int, int], seed: int) -> np.ndarray:
    # With one thread, sums are computed in the same order in each run.
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, use_per_session_threads=True,
        allow_soft_placement=True, device_count={"GPU": 0})
    graph = tf.Graph()
    with graph.as_default():
        tf.compat.v1.set_random_seed(seed & _GRAPH_SEED_BITS)
        rows = tf.convert_to_tensor(initializer(list(shape), dtype=tf.float32), tf.float32)
    with without_shared_thread_pool(), tf.compat.v1.Session(graph=graph, config=config) as session:
        return session.run(rows)
