"""TensorFlow's initializers as the few numbers from which the native side computes initial rows.

An initial row is a function of (table seed, key) alone, so nothing of TensorFlow's random ops is run, and
nothing depends on how many rows the device holds: for the variance scaling family, whose scale comes from
the shape, a row counts as a vector of ``dim`` inputs and outputs.
"""
import hashlib
import math
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import init_ops, init_ops_v2

from ascpipe.tf.not_built import NotBuiltYetError

CONSTANT, UNIFORM, NORMAL, TRUNCATED_NORMAL = range(4)

#: Standard deviation of a normal distribution of deviation 1 that is cut at 2; TensorFlow's own constant.
_TRUNCATED_DEVIATION = 0.87962566103423978

_SEED_BITS = (1 << 64) - 1


class RowInitializer(NamedTuple):
    """Initial rows: kind, its two parameters, and the seed (64 bits)."""

    kind: int
    a: float
    b: float
    seed: int


def row_initializer(initializer: Any, table_name: str, dim: int, graph_seed: Optional[int]) -> RowInitializer:
    """The numbers of a TF1 or TF2 initializer.

    Without a seed of its own, a table's seed is the hash of its name, xor the graph's seed.

    Raises:
        NotBuiltYetError: an initializer of another kind.
        ValueError: parameters that TensorFlow would refuse.
    """
    seed = getattr(initializer, "seed", None)
    seed = _name_hash(table_name) ^ (graph_seed or 0) if seed is None else int(seed)
    kind, a, b = _distribution(initializer, dim)
    if not (math.isfinite(a) and math.isfinite(b)):
        raise ValueError("emb_initializer {} has parameters {} and {}, which are not finite".format(
            type(initializer).__name__, a, b))
    return RowInitializer(kind, a, b, seed & _SEED_BITS)


def is_initializer(value: Any) -> bool:
    """Whether a value is an instance of a TF1 or TF2 initializer class."""
    return isinstance(value, (init_ops.Initializer, init_ops_v2.Initializer))


def _distribution(initializer: Any, dim: int) -> Tuple[int, float, float]:
    if isinstance(initializer, (init_ops.Zeros, init_ops_v2.Zeros)):
        return CONSTANT, 0.0, 0.0
    if isinstance(initializer, (init_ops.Ones, init_ops_v2.Ones)):
        return CONSTANT, 1.0, 0.0
    if isinstance(initializer, (init_ops.Constant, init_ops_v2.Constant)):
        return CONSTANT, _scalar(initializer.value), 0.0
    if isinstance(initializer, (init_ops.RandomUniform, init_ops_v2.RandomUniform)):
        high = 1.0 if initializer.maxval is None else initializer.maxval
        return _ordered_uniform(_scalar(initializer.minval), _scalar(high))
    if isinstance(initializer, (init_ops.TruncatedNormal, init_ops_v2.TruncatedNormal)):
        return TRUNCATED_NORMAL, _scalar(initializer.mean), _scalar(initializer.stddev)
    if isinstance(initializer, (init_ops.RandomNormal, init_ops_v2.RandomNormal)):
        return NORMAL, _scalar(initializer.mean), _scalar(initializer.stddev)
    if isinstance(initializer, (init_ops.VarianceScaling, init_ops_v2.VarianceScaling)):
        return _variance_scaling(initializer, dim)
    raise NotBuiltYetError("create_table(emb_initializer={})".format(type(initializer).__name__),
                           "use a constant, zeros, ones, uniform, normal, truncated normal or variance scaling one")


def _variance_scaling(initializer: Any, dim: int) -> Tuple[int, float, float]:
    # fan_in, fan_out and their mean are all `dim` for one row.
    variance = initializer.scale / max(1.0, dim)
    if initializer.distribution in ("normal", "truncated_normal"):
        return TRUNCATED_NORMAL, 0.0, math.sqrt(variance) / _TRUNCATED_DEVIATION
    if initializer.distribution == "untruncated_normal":
        return NORMAL, 0.0, math.sqrt(variance)
    limit = math.sqrt(3.0 * variance)
    return UNIFORM, -limit, limit


def _ordered_uniform(low: float, high: float) -> Tuple[int, float, float]:
    if low > high:
        raise ValueError("emb_initializer: minval {} is bigger than maxval {}".format(low, high))
    return UNIFORM, low, high


def _scalar(value: Any) -> float:
    """A parameter as a float; TensorFlow allows tensors and arrays here, we need the value now."""
    if isinstance(value, tf.Tensor):
        value = tf.get_static_value(value)
        if value is None:
            raise NotBuiltYetError("an emb_initializer with a tensor as parameter", "give a number")
    array = np.asarray(value, dtype=np.float64)
    if array.size != 1:
        raise NotBuiltYetError("an emb_initializer with {} values".format(array.size), "give one number")
    return float(array.reshape(()))


def _name_hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
