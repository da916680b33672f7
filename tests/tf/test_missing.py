"""Places without a row: the dense restore index of sparse ids, and the default row in training."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf.graph.batch_structure import with_default_row
from ascpipe.tf.graph.ids import Ids


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        yield session


def test_the_restore_index_of_a_sparse_tensor_has_its_dense_shape_and_minus_one_elsewhere(session):
    ids = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], tf.constant([7, 8, 7], tf.int64), [3, 3])
    index = Ids.of(ids).dense_restore(tf.constant([0, 1, 0]))
    assert index.shape.as_list() == [3, 3]
    assert session.run(index).tolist() == [[-1, 0, -1], [1, -1, 0], [-1, -1, -1]]


def test_an_empty_sparse_tensor_is_all_missing(session):
    ids = tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], tf.int64), [1, 2])
    assert session.run(Ids.of(ids).dense_restore(tf.zeros([0], tf.int32))).tolist() == [[-1, -1]]


@pytest.mark.parametrize("inner", [(), (2,)])
def test_the_restore_index_of_a_ragged_tensor_has_its_bounding_shape(inner, session):
    values = tf.ones([3, *inner], tf.int64)
    restore = tf.reshape(tf.range(3 * int(np.prod(inner))), [3, *inner])
    index = session.run(Ids.of(tf.RaggedTensor.from_row_splits(values, [0, 1, 1, 3])).dense_restore(restore))
    assert index.shape == (3, 2, *inner)
    assert index[0, 0].reshape(-1).tolist() == list(range(int(np.prod(inner))))
    assert (index[0, 1] == -1).all() and (index[1] == -1).all() and (index[2] >= 0).all()


@pytest.mark.parametrize("default, expected", [(9.0, [9, 9]), ([8.0, 9.0], [8, 9])])
def test_the_default_row_stands_where_a_key_was_not_admitted_or_none_is_and_takes_no_gradient(
        default, expected, session):
    rows = tf.ones([2, 3, 2])
    slots = tf.constant([4, -1, (1 << 30) + 5])  # the last is that of a padding key
    restore = tf.constant([[0, 1, 2], [-1, 0, 1]])
    result = with_default_row(rows, slots, restore, tf.constant(default))
    (gradient,) = tf.gradients(tf.reduce_sum(result), rows)
    result, gradient = session.run([result, gradient])
    missing = np.array([[0, 1, 0], [1, 0, 1]], bool)
    assert (result[missing] == expected).all() and (result[~missing] == 1).all()
    assert (gradient[missing] == 0).all() and (gradient[~missing] == 1).all()


def test_a_batch_without_any_key_has_only_default_rows(session):
    result = with_default_row(tf.zeros([2, 2]), tf.zeros([0], tf.int32), tf.constant([-1, -1]), tf.constant(3.0))
    assert session.run(result).tolist() == [[3, 3], [3, 3]]
