"""One warning is logged if a program computes something over all trainable variables, which include no tables."""
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import twin_programs

v1 = tf.compat.v1


def penalty(model):
    return tf.add_n([tf.nn.l2_loss(each) for each in v1.trainable_variables()])


def penalty_without_biases(model):
    v1.get_variable("bias", [3], use_resource=True)
    v1.get_variable("kernel", [3, 2], use_resource=True)
    return tf.add_n([tf.nn.l2_loss(each) for each in v1.trainable_variables() if each.shape.rank > 1])


def penalty_of_squares(model):
    return tf.add_n([tf.reduce_sum(tf.square(each)) for each in v1.trainable_variables()])


def penalty_of_contrib(model):
    return twin_programs.contrib("layers").apply_regularization(
        twin_programs.contrib("layers").l2_regularizer(0.1), v1.trainable_variables())


def norm(model):
    return 0.0 * tf.linalg.global_norm(v1.trainable_variables())


def penalty_of_rows_too(model):
    return penalty(model) + sum(tf.nn.l2_loss(rows) for rows in model.rows.values())


def penalty_of_squared_rows_too(model):
    squares = [tf.square(tf.reshape(rows, [-1])) for rows in model.rows.values()]
    return penalty_of_squares(model) + sum(map(tf.reduce_sum, squares))


def penalty_of_a_layer(model):
    """Its regularizer is meant for this layer alone."""
    hidden = v1.layers.dense(model.of_users[:, tf.newaxis], 1, use_bias=False, kernel_regularizer=twin_programs.contrib(
        "layers").l2_regularizer(0.1))
    return tf.reduce_sum(hidden) + tf.add_n(v1.losses.get_regularization_losses())


def penalty_of_one_of_two(model):
    v1.get_variable("kernel", [3, 2], use_resource=True)
    return tf.nn.l2_loss(v1.get_variable("other", [3, 2], use_resource=True))


def trained_with(addend):
    return lambda model: asc.optimizers.Adagrad(0.1).minimize(model.loss + addend(model))


def warnings_of(train, caplog, mode="tensors"):
    caplog.clear()
    outcome = twin_programs.ours(train, mode=mode)
    assert outcome.error is None, outcome.error
    return [record.getMessage() for record in caplog.records if "all trainable variables" in record.getMessage()]


@pytest.mark.parametrize("addend", [penalty, penalty_without_biases, penalty_of_squares, penalty_of_contrib, norm],
                         ids=lambda function: function.__name__)
def test_an_l2_loss_over_all_variables_warns_once(addend, caplog):
    found = warnings_of(trained_with(addend), caplog, "features" if addend is penalty else "tensors")
    assert len(found) == 1
    assert "tables 'item', 'user'" in found[0]
    assert "tf.nn.l2_loss(rows)" in found[0]


@pytest.mark.parametrize("addend", [
    penalty_of_rows_too, penalty_of_squared_rows_too, penalty_of_a_layer, penalty_of_one_of_two],
                         ids=lambda function: function.__name__)
def test_other_losses_do_not_warn(addend, caplog):
    assert warnings_of(trained_with(addend), caplog) == []


def test_histograms_of_all_variables_warn_once(caplog):
    def train(model):
        for each in v1.trainable_variables():
            v1.summary.histogram(each.op.name, each)
        return asc.optimizers.Adagrad(0.1).minimize(model.loss)

    (found,) = warnings_of(train, caplog)
    assert "tf.summary.histogram(name, rows)" in found


def test_moving_averages_of_all_variables_warn_once(caplog):
    def train(model):
        with tf.control_dependencies([asc.optimizers.Adagrad(0.1).minimize(model.loss)]):
            return tf.train.ExponentialMovingAverage(0.9).apply()

    (found,) = warnings_of(train, caplog)
    assert "have no moving average" in found


def test_a_second_graph_is_not_warned_of_again(caplog):
    with twin_programs.ascpipe():
        for _ in range(2):
            with tf.Graph().as_default():
                table = asc.create_table("user", 2, device_vocabulary_size=9, initializer=v1.ones_initializer())
                data = tf.data.Dataset.from_tensors([1, 2]).repeat(2)
                rows = asc.sparse_lookup(table, v1.data.make_one_shot_iterator(data).get_next())
                loss = tf.reduce_sum(rows) + tf.nn.l2_loss(v1.get_variable("kernel", [2, 2]))
                train = asc.optimizers.Adagrad(0.1).minimize(loss)
                asc.start()
                with v1.Session() as session:
                    session.run(v1.global_variables_initializer())
                    session.run(train)
    assert sum("all trainable variables" in record.getMessage() for record in caplog.records) == 1
