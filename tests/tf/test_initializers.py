"""TensorFlow's initializers as numbers, and the seeds of tables."""
import math

import pytest
import tensorflow as tf

from ascpipe.tf.initializers import CONSTANT, NORMAL, TRUNCATED_NORMAL, UNIFORM, row_initializer
from ascpipe.tf.not_built import NotBuiltYetError

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
    (V1.initializers.he_uniform(), (UNIFORM, -GLOROT_LIMIT * math.sqrt(2), GLOROT_LIMIT * math.sqrt(2))),
]


@pytest.mark.parametrize("initializer, expected", CASES, ids=lambda value: type(value).__name__)
def test_each_initializer_has_its_distribution(initializer, expected):
    found = row_initializer(initializer, "user", 16, None)
    assert (found.kind, found.a, found.b) == (expected[0], pytest.approx(expected[1]), pytest.approx(expected[2]))


@pytest.mark.parametrize("initializer", [
    V1.orthogonal_initializer(), V1.uniform_unit_scaling_initializer(), V1.constant_initializer([1.0, 2.0])],
    ids=lambda value: type(value).__name__)
def test_another_initializer_is_not_built_yet(initializer):
    with pytest.raises(NotBuiltYetError):
        row_initializer(initializer, "user", 16, None)


@pytest.mark.parametrize("initializer", [
    V1.random_normal_initializer(stddev=float("inf")), V1.constant_initializer(float("nan")),
    V1.random_uniform_initializer(1.0, 0.0)], ids=lambda value: type(value).__name__)
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
