"""Clips of the gradient of bags of ids are TensorFlow's, which has a row for each distinct id of a lookup."""
import functools

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import twin_programs
from tests.tf.test_ops_on_gradients import by_global_norm, by_norm, by_value

v1 = tf.compat.v1
BAGS = [[[1, 2, 1], [2, 2], [4]], [[3], [1, 1, 4], [5, 3]]]  #: of a step, of two lookups
SIDE = [[1, 2], [2, 2], [3, 1]]


def trained_rows(change, is_ours, look_up, steps=3):
    """Rows of six keys after some steps of a program with two lookups of one table."""
    with (twin_programs.ascpipe() if is_ours else tf.Graph().as_default()):
        if is_ours:
            table = asc.create_table("user", 2, initializer=v1.constant_initializer(0.5), device_vocabulary_size=10)
        else:
            table = v1.get_variable("user", [6, 2], initializer=v1.constant_initializer(0.5), use_resource=False)
        ragged = [tf.ragged.constant(bags, tf.int64) for bags in BAGS]
        data = tf.data.Dataset.from_tensors(tuple(each.to_sparse() for each in ragged) + (
            tf.constant(SIDE, tf.int64), tf.range(6, dtype=tf.int64))).repeat(steps + 1)
        iterator = v1.data.make_initializable_iterator(data.prefetch(2))
        *batch, everything = iterator.get_next()
        rows = look_up(table, batch, is_ours)
        weights = tf.constant(np.linspace(-1, 2, rows.shape[1].value), tf.float32)
        loss = tf.reduce_sum(tf.square(rows * weights - 0.3))
        optimizer = asc.optimizers.Adagrad(0.1) if is_ours else v1.train.AdagradOptimizer(0.1)
        pairs = optimizer.compute_gradients(loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)
        train = optimizer.apply_gradients(change(pairs))
        final = table
        if is_ours:
            final = asc.sparse_lookup(table, everything, training=False, default_value="initial")
            asc.start()
        with v1.Session() as run:
            run.run([iterator.initializer, v1.global_variables_initializer()])
            for _ in range(steps):
                run.run(train)
            return run.run(final)[1:]


def of_bags(count):
    def look_up(table, batch, is_ours):
        combine = functools.partial(asc.lookup_sparse, table) if is_ours else functools.partial(
            tf.nn.embedding_lookup_sparse, table)
        kwargs = {} if is_ours else {"sp_weights": None}
        return tf.concat([combine(batch[place], combiner="mean", **kwargs) for place in range(count)], 1)
    return look_up


def of_bags_and_ids(table, batch, is_ours):
    ids = asc.sparse_lookup(table, batch[2]) if is_ours else tf.nn.embedding_lookup(table, batch[2])
    return tf.concat([of_bags(1)(table, batch, is_ours), tf.reshape(ids, [3, 4])], 1)


@pytest.mark.parametrize("change", [by_norm, by_value, by_global_norm], ids=lambda change: change.__name__)
@pytest.mark.parametrize("look_up", [of_bags(1), of_bags(2), of_bags_and_ids], ids=["a bag", "bags", "both"])
@pytest.mark.each_value
@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")
def test_clips_of_the_gradient_of_bags_are_those_of_tensorflow(look_up, change):
    wanted = trained_rows(change, False, look_up)
    np.testing.assert_allclose(trained_rows(change, True, look_up), wanted, rtol=1e-5)
    assert np.abs(wanted - trained_rows(lambda pairs: pairs, False, look_up)).max() > 1e-3, "the clip changes nothing"
