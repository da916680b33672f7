"""Habits of session programs with feature columns: several towers, managed sessions, what layers give back."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import column_programs as p
from tests.tf import columns, programs

fc = tf.feature_column
v1 = tf.compat.v1
pytestmark = [
    pytest.mark.timeout_s(120), pytest.mark.filterwarnings("ignore:distutils Version classes"),
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")]


def layer(features):
    with v1.variable_scope("tower", reuse=v1.AUTO_REUSE):
        column = p.embedding(fc.categorical_column_with_identity("user", 300))
        return v1.feature_column.input_layer(features, [column])


@pytest.mark.parametrize("names", [("deep", "wide"), ("wide", "deep", "wide/deep")])
def test_a_column_whose_range_is_asserted_may_be_in_several_towers(names):
    def build(features):
        made = []
        for name in names:
            with v1.variable_scope(name):
                made.append(layer(features))
        return tf.concat(made, axis=1)

    p.require_same(p.trained("device", build), p.trained("tensorflow", build))


@pytest.mark.parametrize("place", ["input_layer", "linear_model"])
def test_layers_say_which_variables_they_made(place):
    def made(side):
        with tf.Graph().as_default(), columns.on(side):
            categories = fc.categorical_column_with_identity("user", 300)
            column, found = categories if place == "linear_model" else p.embedding(categories), {}
            getattr(v1.feature_column, place)(p.batch()[0], [column], cols_to_vars=found)
            return {str(key): [each.name for each in value] for key, value in found.items() if value}

    assert [*made("device").values()] == [*made("tensorflow").values()]


def test_a_layer_that_is_not_trainable_trains_no_row():
    def build(features):
        column = p.embedding(fc.categorical_column_with_identity("user", 300))
        with v1.variable_scope("frozen"):
            return tf.concat([layer(features), v1.feature_column.input_layer(features, [column], trainable=False)], 1)

    p.require_same(p.trained("device", build), p.trained("tensorflow", build))


def test_a_managed_session_trains_without_a_hook():
    def trained(side):
        with tf.Graph().as_default(), columns.on(side):
            step = v1.train.get_or_create_global_step()
            features, iterator = p.batch(repeat=True)
            loss = p.loss_of(layer(features), features["label"])
            train = p.gradient_descent().minimize(loss, step)
            v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            with v1.train.MonitoredTrainingSession(config=columns.config().session_config) as session:
                return [session.run([loss, train])[0] for _ in range(p.STEPS)]

    assert trained("device") == trained("tensorflow")


def test_a_program_that_trains_without_columns_is_told_once_that_no_variable_is_replaced(capfd):
    with tf.Graph().as_default(), columns.on("device"):
        weight = v1.get_variable("weight", [])
        train = p.gradient_descent().minimize(weight * weight)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(2):
                session.run(train)
    assert " ".join(capfd.readouterr().err.split()).count("no variable is replaced by a table, because") == 1


def test_a_program_that_evaluates_without_columns_is_told_nothing(capfd):
    with tf.Graph().as_default(), columns.on("device"), v1.Session() as session:
        session.run(tf.constant(1.0))
    assert "no variable is replaced" not in " ".join(capfd.readouterr().err.split())


def test_the_global_step_grows_by_one_where_variables_and_tables_are_trained():
    with tf.Graph().as_default(), columns.on("device"):
        step = v1.train.get_or_create_global_step()
        features, iterator = p.batch(repeat=True)
        weight = v1.get_variable("weight", [], initializer=v1.ones_initializer())
        train = p.gradient_descent().minimize(p.loss_of(weight * layer(features), features["label"]), step)
        with programs.session() as session:
            session.run([iterator.initializer, v1.global_variables_initializer()])
            for done in range(1, 4):
                session.run(train)
                assert session.run(step) == done
            assert session.run(weight) != 1


def test_a_saver_saves_and_restores_the_rows_of_columns(tmp_path):
    def trained(first, last):
        with tf.Graph().as_default(), columns.on("device"):
            features, iterator = p.batch(repeat=True)
            loss = p.loss_of(layer(features), features["label"])
            train, saver = p.gradient_descent().minimize(loss), v1.train.Saver()
            with programs.session() as session:
                session.run([iterator.initializer, v1.global_variables_initializer()])
                if first:
                    saver.restore(session, str(tmp_path / "model"))
                for _ in range(first):
                    session.run(features["label"])
                losses = [session.run([loss, train])[0] for _ in range(first, last)]
                if not first:
                    saver.save(session, str(tmp_path / "model"))
                return losses

    with tf.Graph().as_default():
        whole = [loss for loss, _ in p.trained("tensorflow", layer, steps=5)]
    assert trained(0, 3) == whole[:3]
    assert trained(3, 5) == whole[3:]


def test_integers_that_are_no_keys_are_left_out_and_keys_have_no_upper_end():
    ids = np.array([[2 ** 62 + 1, -1], [-1, -1], [5, 2 ** 62 + 1], [-7, 5]] * 20, np.int64)
    given = {"ids": ids, "label": np.random.RandomState(1).uniform(0, 1, 80).astype(np.float32)}

    def ours(features):
        column = asc.feature_column.categorical_column_with_int64("ids")
        return v1.feature_column.input_layer(features, [asc.feature_column.embedding_column(
            column, p.DIM, initializer=p.constant(), device_vocabulary_size=100)])

    def theirs(features):
        ids = tf.where(features["ids"] > 2 ** 62, tf.fill([p.BATCH, 2], tf.constant(77, tf.int64)), features["ids"])
        ids = tf.where(ids < 0, tf.fill([p.BATCH, 2], tf.constant(-1, tf.int64)), ids)
        column = fc.categorical_column_with_identity("ids", 99)
        return v1.feature_column.input_layer({"ids": ids}, [p.embedding(column)])

    with p.own():
        found = p.run(ours, start=True, given=given)
    p.require_same(found, p.trained("tensorflow", theirs, given=given))


def test_text_for_integers_is_refused():
    with p.own(), pytest.raises(ValueError, match="categorical_column_with_int64 needs integers"):
        column = asc.feature_column.categorical_column_with_int64("words")
        v1.feature_column.input_layer(p.batch()[0], [asc.feature_column.embedding_column(
            column, p.DIM, device_vocabulary_size=100)])


# ---- ways to train

@pytest.mark.parametrize("make", [
    lambda: v1.train.MomentumOptimizer(0.05, 0.9), lambda: v1.train.RMSPropOptimizer(0.05),
    lambda: v1.train.ProximalAdagradOptimizer(0.05), lambda: v1.train.AdadeltaOptimizer(0.5)])
@pytest.mark.parametrize("side", ["device", "host"])
@pytest.mark.each_value
def test_an_optimizer_without_a_form_for_tables_updates_their_rows_in_place(side, make):
    p.require_same(p.trained(side, layer, make), p.trained("tensorflow", layer, make), 1e-6)


class Asking:
    """An optimizer of a program that calls ``tf.gradients``."""

    def __init__(self, optimizer, change=lambda pairs: pairs):
        self._optimizer, self._change = optimizer, change

    def minimize(self, loss):
        variables = v1.trainable_variables()
        return self._optimizer.apply_gradients(self._change(zip(tf.gradients(loss, variables), variables)))


def clipped(pairs):
    gradients, variables = zip(*pairs)
    return zip(tf.clip_by_global_norm(gradients, 0.1)[0], variables)


@pytest.mark.parametrize("change", [lambda pairs: pairs, clipped], ids=["", "clipped"])
@pytest.mark.parametrize("side", ["device", "host"])
@pytest.mark.each_value
def test_gradients_of_tf_gradients_train_columns(side, change):
    def make():
        return Asking(v1.train.GradientDescentOptimizer(0.05), change)

    p.require_same(p.trained(side, layer, make), p.trained("tensorflow", layer, make), 1e-6)


@pytest.mark.parametrize("expands", [False, True])
@pytest.mark.parametrize("minimize", [
    lambda loss: asc.optimizers.Adagrad(0.05).minimize(loss),
    lambda loss: asc.optimizers.Adagrad(0.05).minimize(loss, var_list=asc.table_variables()),
    lambda loss: v1.train.AdagradOptimizer(0.05).minimize(
        loss, var_list=[*v1.trainable_variables(), *asc.table_variables()]),
    lambda loss: Asking(v1.train.AdagradOptimizer(0.05)).minimize(loss),
    lambda loss: Asking(asc.optimizers.Adagrad(0.05)).minimize(loss)],
    ids=["all", "tables", "both lists", "tf.gradients", "tf.gradients by ours"])
@pytest.mark.each_value
def test_a_table_behind_a_column_is_trained_once_however_it_is_found(minimize, expands):
    def trained(train):
        features, iterator = p.batch(repeat=True)
        loss = p.loss_of(layer(features), features["label"])
        op = train(loss)
        with programs.session() as session:
            session.run([iterator.initializer, v1.global_variables_initializer()])
            return [session.run([loss, op])[0] for _ in range(p.STEPS)]

    with p.own(use_dynamic_expansion=expands):
        asc.use_for_feature_columns(min_buckets=columns.MIN_BUCKETS)
        found = trained(minimize)
    with tf.Graph().as_default(), columns.on("tensorflow"):
        expected = trained(lambda loss: v1.train.AdagradOptimizer(0.05).minimize(loss))
    np.testing.assert_allclose(found, expected, 1e-5)
