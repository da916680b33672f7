"""The distributions of initial rows, in their readable form; tests/cpp holds the compiled form to it."""
import math

import pytest

from tests.reference import initial_rows
from tests.reference.initial_rows import CONSTANT, NORMAL, POOL, TRUNCATED_NORMAL, UNIFORM

N = 20000


def sample(kind, a, b, key=1):
    return initial_rows.row(5, kind, a, b, 1.0, key, N)


def moments(values):
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def test_a_constant_is_scaled_and_rounded():
    assert initial_rows.row(5, CONSTANT, 0.1, 0.0, 3.0, 1, 2) == [initial_rows.to_float32(0.1 * 3.0)] * 2


def test_uniform_values_fill_their_interval():
    values = sample(UNIFORM, -2.0, 4.0)
    assert -2.0 <= min(values) < -1.99
    assert 3.99 < max(values) <= 4.0
    assert moments(values) == (pytest.approx(1.0, abs=0.05), pytest.approx(6 / math.sqrt(12), abs=0.05))


def test_normal_values_have_mean_and_deviation():
    assert moments(sample(NORMAL, 3.0, 2.0)) == (pytest.approx(3.0, abs=0.06), pytest.approx(2.0, abs=0.05))


def test_a_truncated_normal_stays_within_two_deviations():
    values = sample(TRUNCATED_NORMAL, 1.0, 0.5)
    assert max(abs(value - 1.0) for value in values) <= 1.0 + 1e-7
    assert moments(values) == (pytest.approx(1.0, abs=0.02), pytest.approx(0.8796 * 0.5, abs=0.02))


def test_the_logarithm_is_that_of_the_library_to_the_last_bits():
    for step in range(1, 5000):
        x = step / 10000.0
        assert initial_rows.log(x) == pytest.approx(math.log(x), rel=1e-15)


def test_the_inverse_normal_undoes_the_distribution_function():
    for step in range(1, 2000):
        p = step / 2000.0
        x = initial_rows.inverse_normal(p)
        assert 0.5 * math.erfc(-x / math.sqrt(2.0)) == pytest.approx(p, rel=1e-13)
    for p in (1e-15, 1e-12, 1e-6):
        x = initial_rows.inverse_normal(p)
        assert 0.5 * math.erfc(-x / math.sqrt(2.0)) == pytest.approx(p, rel=1e-12)


def test_rows_depend_on_seed_and_key_only():
    row = initial_rows.row(5, UNIFORM, 0.0, 1.0, 1.0, 77, 8)
    assert row == initial_rows.row(5, UNIFORM, 0.0, 1.0, 1.0, 77, 8)
    assert row != initial_rows.row(6, UNIFORM, 0.0, 1.0, 1.0, 77, 8)
    assert row != initial_rows.row(5, UNIFORM, 0.0, 1.0, 1.0, 78, 8)
    assert row[:4] == initial_rows.row(5, UNIFORM, 0.0, 1.0, 1.0, 77, 4)


def test_keys_pick_every_row_of_a_pool_equally_often():
    rows, keys = 16, 16000
    counts = [0] * rows
    for key in range(keys):
        counts[initial_rows.pool_row(5, key, rows)] += 1
    expected = keys / rows
    assert sum((count - expected) ** 2 / expected for count in counts) < 37.7  # chi-squared of 15, one in a thousand


def test_a_key_takes_its_row_of_the_pool_scaled_and_rounded():
    pool = [[0.5, 1.0], [0.25, 3.0], [initial_rows.to_float32(0.1), -2.0]]
    for key in range(20):
        at = initial_rows.pool_row(5, key, 3)
        assert initial_rows.row(5, POOL, 0.0, 0.0, 1.0, key, 2, pool) == pool[at]
        scaled = [initial_rows.to_float32(value * 0.3) for value in pool[at]]
        assert initial_rows.row(5, POOL, 0.0, 0.0, 0.3, key, 2, pool) == scaled
    assert initial_rows.row(5, POOL, 0.0, 0.0, 1.0, -7, 2, pool[:1]) == pool[0]
