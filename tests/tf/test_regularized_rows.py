"""L2 losses of rows and weight decay of the rows of a batch train as in TensorFlow, in every tier."""
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.support.contrib import contrib
from tests.tf import twin_programs
from tests.tf.test_gradients_of_tables import Gradient
from tests.tf.twin_programs import RATE, quiet, require_equal_or_refused

v1 = tf.compat.v1
DECAY = 0.1


def l2_of_rows(model, kind):
    """Each occurrence of an id counts."""
    return minimized(model, kind, DECAY * sum(map(tf.nn.l2_loss, model.rows.values())))


def l1_l2_regularizer(model, kind):
    regularizer = contrib("layers").sum_regularizer([
        contrib("layers").l2_regularizer(DECAY), contrib("layers").l1_regularizer(DECAY / 2)])
    return minimized(model, kind, tf.add_n([regularizer(rows) for rows in model.rows.values()]))


def activity_of_a_layer(model, kind):
    return minimized(model, kind, DECAY * tf.reduce_mean(tf.square(tf.keras.layers.Flatten()(model.rows["user"]))))


def rows_and_variables(model, kind):
    """The sum over variables leaves tables out, and their rows are added."""
    variables = [each for each in v1.trainable_variables() if each.op.name not in model.tables]
    return minimized(model, kind, DECAY * tf.add_n([tf.nn.l2_loss(each) for each in variables] + [
        tf.nn.l2_loss(rows) for rows in model.rows.values()]))


def minimized(model, kind, penalty):
    return model.optimizer(kind).minimize(model.loss + penalty)


def changed(model, kind, change, optimizer=None):
    optimizer = optimizer or model.optimizer(kind)
    pairs = optimizer.compute_gradients(model.loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)
    rows = [model.variables()[0], model.variables()[1]]
    places = (1, 2) if model.is_ours else (0, 1)
    for place, variable in zip(places, rows):
        gradient, target = pairs[place]
        pairs[place] = change(Gradient(gradient, variable)), target
    return optimizer.apply_gradients(pairs)


def decay_of_each_occurrence(model, kind):
    def decayed(gradient):
        slices = gradient.slices
        return tf.IndexedSlices(slices.values + DECAY * tf.gather(gradient.rows, slices.indices), slices.indices,
                                slices.dense_shape)
    return changed(model, kind, decayed)


def summed_and_decayed(gradient):
    slices = gradient.slices
    rows, places = tf.unique(slices.indices)
    sums = v1.unsorted_segment_sum(slices.values, places, tf.size(rows))
    return tf.IndexedSlices(sums + DECAY * tf.gather(gradient.rows, rows), rows, slices.dense_shape)


def decay_of_each_key(model, kind):
    return changed(model, kind, summed_and_decayed)


def gradient_descent_with_decay(model, kind):
    """The argument of our optimizer, and what it means; of the tables alone."""
    if not model.is_ours:
        return changed(model, kind, summed_and_decayed, v1.train.GradientDescentOptimizer(RATE))
    return asc.Optimizer(dense=v1.train.GradientDescentOptimizer(RATE), sparse=lambda: (
        asc.optimizers.GradientDescent(RATE, weight_decay=DECAY))).minimize(
            model.loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)


@pytest.mark.parametrize("tier", ["host", "device", "disk", "expansion"])
@pytest.mark.parametrize("way, kind", [
    (l2_of_rows, "adagrad"), (l1_l2_regularizer, "lazy_adam"), (activity_of_a_layer, "gradient_descent"),
    (rows_and_variables, "gradient_descent"), (decay_of_each_occurrence, "adagrad"), (decay_of_each_key, "lazy_adam"),
    (gradient_descent_with_decay, "gradient_descent")], ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.each_value
def test_rows_of_a_batch_are_regularized_as_in_tensorflow(way, kind, tier, tmp_path):
    def train(model):
        return way(model, kind)

    with quiet():
        plain = twin_programs.plain(train)
        assert not require_equal_or_refused(twin_programs.ours(train, tier, "features", tmp_path), plain)
        assert plain.losses != twin_programs.plain(lambda model: model.optimizer(kind).minimize(model.loss)).losses
