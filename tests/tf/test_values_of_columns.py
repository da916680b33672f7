"""Columns of ascpipe.tf.feature_column as values: what is equal, and what TensorFlow does with columns as keys."""
import copy
import operator

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import column_programs as p
from tests.tf import programs

v1 = tf.compat.v1
pytestmark = [
    pytest.mark.timeout_s(120), pytest.mark.filterwarnings("ignore:distutils Version classes"),
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")]

START = p.constant()


def one(**sizes):
    return asc.feature_column.embedding_column(p.words(2 ** 62), p.DIM, initializer=START, **sizes)


def shared(**sizes):
    return asc.feature_column.shared_embedding_columns(
        [p.words(2 ** 62), p.words(2 ** 62, "hour")], p.DIM, initializer=START, **sizes)[0]


def are_equal(first, second):
    """Whether two columns are; all ways of asking give one answer."""
    (answer,) = {ask(*pair) is wanted for ask, wanted in ((operator.eq, True), (operator.ne, False))
                 for pair in ((first, second), (second, first))}
    return answer


MAKERS = pytest.mark.parametrize("make", [one, shared])


@MAKERS
def test_columns_of_the_same_sizes_are_equal(make):
    first, second = (make(device_vocabulary_size=100, host_vocabulary_size=200) for _ in range(2))
    assert are_equal(first, second) and hash(first) == hash(second)
    assert {first: "found"}[second] == "found"


@MAKERS
@pytest.mark.parametrize("other", [{"device_vocabulary_size": 101}, {}, {
    "device_vocabulary_size": 100, "host_vocabulary_size": 200}])
@pytest.mark.each_value
def test_columns_that_differ_in_sizes_alone_are_not_equal(make, other):
    first, second = make(device_vocabulary_size=100), make(**other)
    assert not are_equal(first, second)
    assert len({first, second}) == len({first: 1, second: 2}) == 2


def test_a_column_is_not_equal_to_that_of_tensorflow():
    ours = one(device_vocabulary_size=100)
    theirs = tf.feature_column.embedding_column(p.words(2 ** 62), p.DIM, initializer=START)
    assert tuple(ours) == tuple(theirs)
    assert not are_equal(ours, theirs)


@MAKERS
def test_copies_of_a_column_are_equal_to_it(make):
    column = make(device_vocabulary_size=100)
    for each in (copy.deepcopy(column), copy.copy(column)):
        assert each.table_sizes == column.table_sizes
    assert copy.copy(column) == column


@MAKERS
def test_columns_as_keys_are_sorted_in_one_order_however_they_were_put_in(make):
    keys = [make(device_vocabulary_size=size) for size in (100, 101, 102)]
    orders = [tf.nest.flatten({key: key.table_sizes.device for key in order}) for order in (keys, keys[::-1])]
    assert orders[0] == orders[1] and sorted(orders[0]) == [100, 101, 102]


def test_towers_with_columns_that_differ_in_sizes_have_tables_of_those_sizes():
    with p.own():
        features, iterator = p.batch(repeat=True)
        rows = []
        for name, size in (("small", 60), ("large", 90)):
            with v1.variable_scope(name):
                rows.append(v1.feature_column.input_layer(features, [one(device_vocabulary_size=size)]))
        loss = p.loss_of(tf.concat(rows, 1), features["label"])
        train = p.gradient_descent().minimize(loss)
        asc.start()
        with programs.session() as session:
            session.run([iterator.initializer, v1.global_variables_initializer()])
            assert np.isfinite(session.run([loss, train])[0])
        sizes = {variable.op.name.split("/")[0]: int(variable.shape[0]) for variable in asc.table_variables()}
    assert sorted(sizes.values()) == [60, 90]
