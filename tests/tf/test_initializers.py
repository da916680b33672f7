"""TensorFlow's initializers as numbers or as pools of rows, and the seeds of tables."""
import math

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import init_ops

from ascpipe.tf.program import row_initializers
from ascpipe.tf.program.row_initializers import CONSTANT, NORMAL, POOL, TRUNCATED_NORMAL, UNIFORM, row_initializer

V1, V2, KERAS = tf.compat.v1, tf.compat.v2.initializers, tf.compat.v1.keras.initializers
GLOROT_LIMIT = math.sqrt(3.0 / 16)
GLOROT_DEVIATION = math.sqrt(1.0 / 16) / 0.87962566103423978

CASES = [
    (V1.zeros_initializer(), (CONSTANT, 0.0, 0.0)), (V2.Zeros(), (CONSTANT, 0.0, 0.0)),
    (V1.ones_initializer(), (CONSTANT, 1.0, 0.0)), (V2.Ones(), (CONSTANT, 1.0, 0.0)),
    (V1.constant_initializer(0.25), (CONSTANT, 0.25, 0.0)), (V2.Constant(0.25), (CONSTANT, 0.25, 0.0)),
    (V1.constant_initializer([[0.5]]), (CONSTANT, 0.5, 0.0)),
    (V1.random_uniform_initializer(-0.5, 0.5), (UNIFORM, -0.5, 0.5)),
    (V1.random_uniform_initializer(), (UNIFORM, 0.0, 1.0)),
    (V2.RandomUniform(-0.5, 0.5), (UNIFORM, -0.5, 0.5)), (KERAS.RandomUniform(), (UNIFORM, -0.05, 0.05)),
    (V1.random_normal_initializer(1.0, 2.0), (NORMAL, 1.0, 2.0)), (V2.RandomNormal(1.0, 2.0), (NORMAL, 1.0, 2.0)),
    (V1.truncated_normal_initializer(mean=10), (TRUNCATED_NORMAL, 10.0, 1.0)),
    (V2.TruncatedNormal(1.0, 2.0), (TRUNCATED_NORMAL, 1.0, 2.0)),
    (V1.glorot_uniform_initializer(), (UNIFORM, -GLOROT_LIMIT, GLOROT_LIMIT)),
    (V2.GlorotNormal(), (TRUNCATED_NORMAL, 0.0, GLOROT_DEVIATION)),
    (V1.variance_scaling_initializer(4.0, distribution="untruncated_normal"), (NORMAL, 0.0, 0.5)),
    (V1.uniform_unit_scaling_initializer(2.0), (UNIFORM, -GLOROT_LIMIT * 2, GLOROT_LIMIT * 2)),
    (V1.initializers.he_uniform(), (UNIFORM, -GLOROT_LIMIT * math.sqrt(2), GLOROT_LIMIT * math.sqrt(2))),
]


@pytest.mark.parametrize("initializer, expected", CASES, ids=lambda value: type(value).__name__)
def test_each_initializer_has_its_distribution(initializer, expected):
    found = row_initializer(initializer, "user", 16, None)
    assert (found.kind, found.a, found.b) == (expected[0], pytest.approx(expected[1]), pytest.approx(expected[2]))


class Ramp(V1.initializers.constant):
    """A program's own initializer: rows that count up."""

    def __call__(self, shape, dtype=None, partition_info=None):
        return tf.reshape(tf.cast(tf.range(shape[0] * shape[1]), dtype), shape)


class Failing(V2.Ones):
    def __init__(self, result):
        self._result = result

    def __call__(self, shape, dtype=None):
        return self._result()


def sampled(initializer, dim=16, name="user", graph_seed=None):
    found = row_initializer(initializer, name, dim, graph_seed)
    assert found.kind == POOL
    return found.pool


POOLS = [V1.orthogonal_initializer(), V2.Orthogonal(gain=2.0), V1.orthogonal_initializer(seed=3),
         V1.random_uniform_initializer([0.0] * 8 + [1.0] * 8, 2.0)]


@pytest.mark.parametrize("initializer", POOLS, ids=lambda value: type(value).__name__)
def test_another_initializer_is_sampled_into_the_same_pool_each_time(initializer):
    pool = sampled(initializer)
    assert (pool.shape, pool.dtype) == ((row_initializers.MAX_POOL_ROWS, 16), np.float32)
    assert len(np.unique(pool, axis=0)) == len(pool)
    with tf.Graph().as_default():
        tf.constant(1.0)  # the program's graph does not matter
        assert np.array_equal(sampled(initializer), pool)


def test_a_pool_is_what_tensorflow_says():
    pool = sampled(V1.orthogonal_initializer())
    np.testing.assert_allclose(pool.T @ pool, np.eye(16), atol=1e-5)
    assert np.array_equal(sampled(KERAS.Identity(gain=3.0)), 3.0 * np.eye(row_initializers.MAX_POOL_ROWS, 16))
    assert sampled(Ramp(0.0), dim=4)[2].tolist() == [8.0, 9.0, 10.0, 11.0]


def test_a_pool_depends_on_the_tables_seed():
    unseeded, seeded = V1.orthogonal_initializer(), V2.Orthogonal(seed=4)
    assert not np.array_equal(sampled(unseeded, name="user"), sampled(unseeded, name="item"))
    assert not np.array_equal(sampled(unseeded), sampled(unseeded, graph_seed=5))
    assert np.array_equal(sampled(seeded, name="user"), sampled(seeded, name="item", graph_seed=5))


def test_sampling_adds_nothing_to_the_programs_graph():
    with tf.Graph().as_default() as graph:
        sampled(V1.orthogonal_initializer())
        assert not graph.get_operations()


@pytest.mark.parametrize("dim", [1, 16, 256, 300, 1024, 8192])
def test_a_pool_is_bounded_in_bytes_and_has_rows_to_choose_from(dim):
    rows = row_initializers.pool_rows(dim)
    assert row_initializers.MIN_POOL_ROWS <= rows <= row_initializers.MAX_POOL_ROWS
    assert rows * dim * 4 <= row_initializers.MAX_POOL_BYTES


def test_sampling_says_so_with_the_table_and_the_initializer(caplog):
    row_initializer(V1.random_normal_initializer(), "user", 16, None)
    assert not caplog.records
    sampled(V1.orthogonal_initializer())
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "Table 'user'" in record.getMessage()
    assert "orthogonal_initializer" in record.getMessage() or "Orthogonal" in record.getMessage()
    assert "pool of 4096 rows" in record.getMessage()


def variable():
    return tf.compat.v1.Variable(1.0, use_resource=False)


def raise_key_error():
    raise KeyError("nothing there")


@pytest.mark.parametrize(("initializer", "fragment"), [
    (init_ops.ConvolutionDeltaOrthogonal(), "ConvolutionDeltaOrthogonal of table 'user' .* must be at least three-dim"),
    (Failing(lambda: tf.ones([16])),
     r"E269: Initializer Failing of table 'user' returned values of shape \[16\], expected shape \[4096, 16\]"),
    (Failing(lambda: tf.zeros([4096, 16]) / 0.0), "not finite"),
    (Failing(raise_key_error), "KeyError: 'nothing there'"),
    (Failing(lambda: tf.constant("text")), "Failing of table 'user' failed to return rows"),
    (Failing(lambda: tf.ones([4096, 16]) * variable()), "FailedPrecondition")])
def test_what_gives_no_rows_is_refused_with_what_tensorflow_said(initializer, fragment):
    with pytest.raises(ValueError, match=fragment):
        row_initializer(initializer, "user", 16, None)


def test_a_constant_may_have_a_value_for_each_element_of_a_row(caplog):
    for initializer in (V1.constant_initializer([1.0, 2.0, 0.1]), V2.Constant([[1.0, 2.0, 0.1]]),
                        KERAS.Constant(np.array([1.0, 2.0, 0.1]))):
        found = row_initializer(initializer, "user", 3, None)
        assert found.kind == POOL
        assert np.array_equal(found.pool, np.array([[1.0, 2.0, 0.1]], np.float32))
    assert not caplog.records
    with pytest.raises(ValueError, match="has 6 values, but a row of the table has 3"):
        row_initializer(V1.constant_initializer(np.ones([2, 3])), "user", 3, None)
    with pytest.raises(ValueError, match="not finite"):
        row_initializer(V1.constant_initializer([1.0, float("inf")]), "user", 2, None)


def test_constant_tensors_are_parameters_and_others_are_refused():
    with tf.Graph().as_default():
        low, high = tf.constant(0.25) * 2.0, tf.cast(tf.constant(3), tf.float32)
        initializer = V1.random_uniform_initializer(low, high)
        assert row_initializer(initializer, "user", 16, None)[:3] == (UNIFORM, 0.5, 3.0)
        assert (initializer.minval, initializer.maxval) == (low, high)
        each = V1.random_normal_initializer(tf.constant([0.0, 100.0]), 1.0)
        assert np.abs(sampled(each, dim=2).mean(axis=0) - [0.0, 100.0]).max() < 0.1
        for unknown in (tf.compat.v1.placeholder(tf.float32, []), tf.random.normal([]), variable()):
            with pytest.raises(ValueError, match="of table 'user' has stddev=.*, whose value is known only"):
                row_initializer(V2.RandomNormal(0.0, unknown), "user", 16, None)


@pytest.mark.parametrize("initializer", [
    V1.random_normal_initializer(stddev=float("inf")), V1.constant_initializer(float("nan")),
    V1.constant_initializer(1e39), V1.random_uniform_initializer(1.0, 0.0)], ids=lambda value: type(value).__name__)
def test_parameters_that_make_no_distribution_are_refused(initializer):
    with pytest.raises(ValueError):
        row_initializer(initializer, "user", 16, None)


def test_a_seed_is_that_of_the_initializer_or_the_tables_name_and_the_graphs_seed():
    def seed(initializer, name, graph_seed=None):
        return row_initializer(initializer, name, 16, graph_seed).seed

    assert seed(V1.random_normal_initializer(seed=7), "user", 5) == 7
    assert seed(V2.RandomNormal(seed=-1), "user") == 2 ** 64 - 1
    without = seed(V1.random_normal_initializer(), "user")
    assert without == seed(V1.zeros_initializer(), "user")
    assert without != seed(V1.random_normal_initializer(), "item")
    assert seed(V1.random_normal_initializer(), "user", 5) == without ^ 5
    assert seed(V1.orthogonal_initializer(), "user", 5) == without ^ 5
    assert seed(V1.constant_initializer([0.0] * 16), "user", -5) == without ^ (2 ** 64 - 5)
