"""Initial rows of keys, computed by ops of TensorFlow.

The result is bitwise equal to ``tfops/src/core/initial_rows.cc``. All numbers are int64 or float64, and each op of the
graph rounds once, like the C++ code. int64 arithmetic wraps around, so its results have the same bits as in uint64
arithmetic.
"""
from typing import Sequence

import numpy as np
import tensorflow as tf

from ascpipe.layout.initial_kinds import CONSTANT, POOL, TRUNCATED_NORMAL, UNIFORM
from ascpipe.tf.running.shapes import TableShape

_GOLDEN = 0x9E3779B97F4A7C15
_LN2 = 0.6931471805599453
_SQRT_HALF = 0.7071067811865476
_BELOW_MINUS_TWO = 0.022750131948179207
_WITHIN_TWO = 0.9544997361036416

# Coefficients of algorithm AS 241, PPND16 (Wichura 1988), lowest power first.
_A = (3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
      4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3)
_B = (1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
      2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3)
_C = (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
      1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4)
_D = (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
      1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9)
_E = (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
      2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7)
_F = (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
      7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15)
_ARTANH = tuple(2.0 / odd for odd in range(1, 24, 2))


def initial_rows(shape: TableShape, keys: tf.Tensor) -> tf.Tensor:
    """Return the initial rows of keys, int64[n], as float32[n, dim]."""
    if shape.kind == CONSTANT:
        return tf.fill([tf.size(keys), shape.dim], np.float32(shape.a * shape.scale))
    row_bits = _mix(tf.bitwise.bitwise_xor(_mix(_constant(shape.seed + _GOLDEN)), keys))
    if shape.kind == POOL and shape.pool is not None:
        scaled = (shape.pool.astype(np.float64) * shape.scale).astype(np.float32)
        return tf.gather(tf.constant(scaled), _shifted(_shifted(row_bits, 32) * len(scaled), 32))
    bits = _mix(tf.expand_dims(row_bits, 1) + _constant(*((column + 1) * _GOLDEN for column in range(shape.dim))))
    if shape.kind == UNIFORM:
        values = shape.a + (shape.b - shape.a) * (tf.cast(_shifted(bits, 11), tf.float64) * 2.0 ** -53)
    else:
        p = (tf.cast(_shifted(bits, 12), tf.float64) + 0.5) * 2.0 ** -52
        if shape.kind == TRUNCATED_NORMAL:
            # p is never below the limit, so tf.maximum does not change it. Without tf.maximum, Grappler would first add
            # the constants of this sum and of _inverse_normal, which rounds differently.
            p = tf.maximum(_BELOW_MINUS_TWO + _WITHIN_TWO * p, _BELOW_MINUS_TWO)
        values = shape.a + shape.b * _inverse_normal(p)
    return tf.cast(values * shape.scale, tf.float32)


def _constant(*values: int) -> tf.Tensor:
    """Return the lower 64 bits of integers as int64[n]."""
    return tf.constant(np.array([value & (1 << 64) - 1 for value in values], np.uint64).astype(np.int64))


def _mix(x: tf.Tensor) -> tf.Tensor:
    """Return the result of splitmix64's mixing function."""
    for bits, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = tf.bitwise.bitwise_xor(x, _shifted(x, bits)) * _constant(factor)
    return tf.bitwise.bitwise_xor(x, _shifted(x, 31))


def _shifted(x: tf.Tensor, bits: int) -> tf.Tensor:
    """Return ``x >> bits``, with ``x`` interpreted as uint64."""
    right = tf.bitwise.right_shift(x, tf.constant(bits, tf.int64))
    return tf.bitwise.bitwise_and(right, tf.constant((1 << 64 - bits) - 1, tf.int64))


def _polynomial(coefficients: Sequence[float], x: tf.Tensor) -> tf.Tensor:
    total = coefficients[-1] * x + coefficients[-2]
    for coefficient in reversed(coefficients[:-2]):
        total = total * x + coefficient
    return total


def _log(x: tf.Tensor) -> tf.Tensor:
    """Return the natural logarithm of positive normal numbers."""
    word = tf.bitcast(x, tf.int64)
    mantissa = tf.bitcast(tf.bitwise.bitwise_or(
        tf.bitwise.bitwise_and(word, _constant((1 << 52) - 1)), _constant(0x3FE << 52)), tf.float64)
    exponent = _shifted(word, 52) - 1022
    is_small = mantissa < _SQRT_HALF
    mantissa = tf.compat.v2.where(is_small, mantissa * 2.0, mantissa)
    exponent = tf.compat.v2.where(is_small, exponent - 1, exponent)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    return s * _polynomial(_ARTANH, s * s) + tf.cast(exponent, tf.float64) * _LN2


def _inverse_normal(p: tf.Tensor) -> tf.Tensor:
    """Return the inverse of the normal distribution function, for 0 < p < 1."""
    q = p - 0.5
    r = 0.180625 - q * q
    central = q * _polynomial(_A, r) / _polynomial(_B, r)
    r = tf.sqrt(-_log(tf.compat.v2.where(q < 0.0, p, 1.0 - p)))
    near = r - 1.6
    far = r - 5.0
    tail = tf.compat.v2.where(r <= 5.0, _polynomial(_C, near) / _polynomial(_D, near),
                              _polynomial(_E, far) / _polynomial(_F, far))
    return tf.compat.v2.where(tf.abs(q) <= 0.425, central, tf.compat.v2.where(q < 0.0, -tail, tail))
