"""Two optimizers, of which one trains the variables by a loss that depends on tables, but not the tables."""
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import twin_programs
from tests.tf.twin_programs import RATE

v1 = tf.compat.v1


def dense():
    return v1.train.GradientDescentOptimizer(RATE)


def all_and_again(model):
    """As a second phase of training, without var_list."""
    again = dense().minimize(model.loss * 0.5)
    with tf.control_dependencies([again]):
        return model.optimizer("adagrad").minimize(model.loss)


def all_and_again_by_all_variables(model):
    again = dense().minimize(model.loss_of(model.of_users), var_list=v1.trainable_variables())
    return tf.group(again, model.optimizer("adagrad").minimize(model.loss))


def apart(model):
    return tf.group(dense().minimize(model.loss), model.optimizer("adagrad").minimize(
        model.loss, var_list=asc.table_variables()))


def apart_by_gradients(model):
    tables = asc.table_variables()
    return tf.group(dense().minimize(model.loss),
                    model.optimizer("adagrad").apply_gradients(zip(tf.gradients(model.loss, tables), tables)))


def stopped(model):
    """The other loss does not train the rows of TensorFlow's program either."""
    loss = tf.square(tf.reduce_sum(v1.trainable_variables()[0]) + tf.stop_gradient(model.loss))
    return tf.group(dense().minimize(loss), model.optimizer("adagrad").minimize(model.loss))


def chosen(model):
    """The program chooses the variables of its second loss."""
    v1.get_variable("other", [], initializer=v1.zeros_initializer())
    return tf.group(dense().minimize(model.loss, var_list=[v1.trainable_variables()[0]]),
                    model.optimizer("adagrad").minimize(model.loss))


def both(model):
    return asc.Optimizer(dense=dense(), sparse=lambda: model.optimizer("adagrad")).minimize(model.loss)


@pytest.mark.parametrize("train, names", [
    (all_and_again, "tables 'user', 'item'"), (all_and_again_by_all_variables, "table 'user'"), (apart, ""),
    (apart_by_gradients, ""), (stopped, ""), (chosen, ""), (both, "")], ids=lambda each: getattr(each, "__name__", ""))
def test_tables_that_a_second_optimizer_leaves_out_are_warned_of(train, names, caplog):
    assert twin_programs.ours(train).error is None
    lines = [line for line in caplog.messages if "trains all trainable variables by the loss" in line]
    assert len(lines) == bool(names)
    assert not names or "but not {}, which another optimizer trains".format(names) in lines[0]
