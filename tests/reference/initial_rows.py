"""Initial rows in plain Python: ``tfops/src/core/initial_rows.cc`` must compute the same bits."""
import math
import struct

CONSTANT, UNIFORM, NORMAL, TRUNCATED_NORMAL, POOL = range(5)

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
LN2 = 0.6931471805599453
SQRT_HALF = 0.7071067811865476
BELOW_MINUS_TWO = 0.022750131948179207
WITHIN_TWO = 0.9544997361036416

# Algorithm AS 241, PPND16 (Wichura 1988), lowest power first.
A = (3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
     4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3)
B = (1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
     2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3)
C = (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4)
D = (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9)
E = (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7)
F = (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15)
ARTANH = tuple(2.0 / odd for odd in range(1, 24, 2))


def mix(x):
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def row_bits(seed, key):
    return mix(mix((seed + GOLDEN) & MASK) ^ (key & MASK))


def bits(seed, key, column):
    """Return 64 bits: element ``column`` of the generator of (seed, key)."""
    return mix((row_bits(seed, key) + (column + 1) * GOLDEN) & MASK)


def pool_row(seed, key, rows):
    """Return which of the ``rows`` rows of a pool a key gets."""
    return (row_bits(seed, key) >> 32) * rows >> 32


def polynomial(coefficients, x):
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def log(x):
    """Return the natural logarithm of a positive normal number."""
    (word,) = struct.unpack("<Q", struct.pack("<d", x))
    exponent = (word >> 52) - 1022
    (mantissa,) = struct.unpack("<d", struct.pack("<Q", (word & (1 << 52) - 1) | 0x3FE << 52))
    if mantissa < SQRT_HALF:
        mantissa, exponent = mantissa * 2.0, exponent - 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    return s * polynomial(ARTANH, s * s) + exponent * LN2


def inverse_normal(p):
    """Return the quantile p of the standard normal distribution."""
    q = p - 0.5
    if -0.425 <= q <= 0.425:
        r = 0.180625 - q * q
        return q * polynomial(A, r) / polynomial(B, r)
    r = math.sqrt(-log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        x = polynomial(C, r) / polynomial(D, r)
    else:
        r -= 5.0
        x = polynomial(E, r) / polynomial(F, r)
    return -x if q < 0.0 else x


def element(seed, kind, a, b, key, column):
    """Return one value before scale and rounding, as a Python float."""
    if kind == CONSTANT:
        return a
    word = bits(seed, key, column)
    if kind == UNIFORM:
        return a + (b - a) * ((word >> 11) * 2.0 ** -53)
    p = ((word >> 12) + 0.5) * 2.0 ** -52
    if kind == TRUNCATED_NORMAL:
        p = BELOW_MINUS_TWO + WITHIN_TWO * p
    return a + b * inverse_normal(p)


def to_float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def row(seed, kind, a, b, scale, key, dim, pool=()):
    """Return the initial row of a key: ``dim`` Python floats that are float32 values.

    ``pool`` has the rows of a pool.
    """
    if kind == POOL:
        return [to_float32(float(value) * scale) for value in pool[pool_row(seed, key, len(pool))]]
    return [to_float32(element(seed, kind, a, b, key, column) * scale) for column in range(dim)]
