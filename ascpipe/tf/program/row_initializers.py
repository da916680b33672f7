"""Translates TensorFlow's initializers into the few numbers from which the native side computes initial rows.

An initial row is a function of (table seed, key) alone, so of the usual initializers nothing is run, and
nothing depends on how many rows the device holds: for the variance scaling family, whose scale comes from
the shape, a row counts as a vector of ``dim`` inputs and outputs.  Of any other one TensorFlow samples a
pool of rows (``row_pool.py``).
"""
import copy
import hashlib
import math
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import smart_cond
from tensorflow.python.ops import init_ops, init_ops_v2

from ascpipe.layout.initial_kinds import CONSTANT, NORMAL, POOL, TRUNCATED_NORMAL, UNIFORM
from ascpipe.tf.program import row_pool

#: Standard deviation of a normal distribution of deviation 1 that is cut at 2; TensorFlow's own constant.
_TRUNCATED_DEVIATION = 0.87962566103423978

_MAX_FLOAT = float(np.finfo(np.float32).max)
_SEED_BITS = (1 << 64) - 1

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
    seed = (_name_hash(table_name) ^ (graph_seed or 0) if seed is None else int(seed)) & _SEED_BITS
    values = _constant_row(initializer, dim)
    if values is not None:
        return RowInitializer(POOL, 0.0, 0.0, seed, values)
    found = _distribution(initializer, dim)
    if found is None:
        return RowInitializer(POOL, 0.0, 0.0, seed, row_pool.sample(initializer, table_name, dim, seed))
    kind, a, b = found
    if not (abs(a) <= _MAX_FLOAT and abs(b) <= _MAX_FLOAT):
        raise ValueError("emb_initializer {} has parameters {} and {}, which are not finite float32".format(
            type(initializer).__name__, a, b))
    return RowInitializer(kind, a, b, seed)


def is_initializer(value: Any) -> bool:
    """Whether a value is an instance of a TF1 or TF2 initializer class."""
    return isinstance(value, (init_ops.Initializer, init_ops_v2.Initializer))


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
        return _ordered(_of_numbers(UNIFORM, initializer.minval, high))
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
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.size != 1 or second.size != 1:
        return None
    return kind, float(first.reshape(())), float(second.reshape(()))


def _ordered(found: Optional[Tuple[int, float, float]]) -> Optional[Tuple[int, float, float]]:
    if found is not None and found[1] > found[2]:
        raise ValueError("emb_initializer: minval {} is bigger than maxval {}".format(*found[1:]))
    return found


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


def _name_hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
