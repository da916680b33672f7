"""Names, optimizers and channels of the tables behind feature columns."""
import logging
import re

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.tf.feature_column.variables import table_name
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIns
from tests.support.contrib import contrib
from tests.tf import column_programs as p
from tests.tf import columns, programs
from tests.tf.column_programs import layer, words

fc = tf.feature_column
v1 = tf.compat.v1
pytestmark = [
    pytest.mark.timeout_s(120), pytest.mark.filterwarnings("ignore:distutils Version classes"),
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")]


def tables():
    """By the name of its variable, the name of each table of the default graph."""
    state = GraphState.of(v1.get_default_graph())
    return {variable: stand_in.table.table_name for variable, stand_in in StandIns.of(state).items()}


def both(build, within=0):
    p.require_same(p.trained("device", build), p.trained("tensorflow", build), within)


# ---- names

TWICE = 1e-6  #: of one table that is looked up twice: TensorFlow subtracts the gradients one after the other

def two_towers(features):
    column, made = p.embedding(words()), []
    for tower in ("user", "item"):
        with v1.variable_scope(tower):
            made.append(v1.feature_column.input_layer(features, [column]))
    return tf.concat(made, axis=1)


def test_one_column_in_two_towers_is_two_tables():
    both(two_towers)
    with tf.Graph().as_default(), columns.on("device"):
        two_towers(p.batch()[0])
        assert len(set(tables().values())) == 2


def again(features):
    column, made = p.embedding(words()), []
    for _ in range(2):
        with v1.variable_scope("tower", reuse=tf.compat.v1.AUTO_REUSE):
            made.append(v1.feature_column.input_layer(features, [column]))
    return tf.concat(made, axis=1)


def test_a_scope_that_is_used_again_has_one_table():
    both(again, TWICE)
    with tf.Graph().as_default(), columns.on("device"):
        again(p.batch()[0])
        assert list(tables()) == ["tower/input_layer/words_embedding/embedding_weights"]


def linear_again(features):
    made = []
    for _ in range(2):
        with v1.variable_scope("tower", reuse=tf.compat.v1.AUTO_REUSE):
            made.append(v1.feature_column.linear_model(features, [words()]))
    return tf.concat(made, axis=1)


def test_a_scope_of_a_linear_model_that_is_used_again_has_one_table():
    both(linear_again, TWICE)


@pytest.mark.parametrize("place", ["input_layer", "linear_model"])
def test_a_partitioner_of_the_scope_does_not_split_a_table(place):
    def build(features):
        with v1.variable_scope("tower", partitioner=v1.fixed_size_partitioner(3)):
            column = words() if place == "linear_model" else p.embedding(words())
            return getattr(v1.feature_column, place)(features, [column])

    both(build)
    with tf.Graph().as_default(), columns.on("device"):
        build(p.batch()[0])
        assert len(tables()) == 1 and "part_" not in list(tables())[0]


def dense_features_in_parts(features):
    with v1.variable_scope("tower", partitioner=v1.fixed_size_partitioner(3)):
        return v1.keras.layers.DenseFeatures([p.embedding(words())])(features)


def test_a_partitioner_around_dense_features_does_not_split_a_table():
    both(dense_features_in_parts)


@pytest.mark.parametrize("name", ["a" * 200, "user/id", "user:id", "user-id", "Nutzerschlüssel"])
def test_any_name_of_a_feature_gives_a_table(name):
    given = p.texts()
    given[name] = given["words"]
    try:
        expected = p.trained("tensorflow", p.as_input_layer(p.embedding(words(key=name))), given=given)
    except ValueError:
        pytest.skip("TensorFlow refuses this name")
    found = p.trained("device", p.as_input_layer(p.embedding(words(key=name))), given=given)
    p.require_same(found, expected)


def test_names_that_read_alike_are_different_tables():
    names = ["a/b", "a_b", "a-b", "a:b", "x" * 99 + "/a", "y" * 99 + "/a", "é", "è"]
    made = [table_name(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(re.match(r"^[A-Za-z0-9_]{1,100}$", name) for name in made), made


def test_names_of_tables_are_the_same_in_each_mode(tmp_path):
    seen = []

    def model_fn(features, labels, mode):
        outputs = v1.feature_column.input_layer(features, [p.embedding(words()), p.embedding(words(key="hour"))])
        seen.append(tables())
        logits = tf.reduce_sum(outputs, axis=1)
        loss = None if labels is None else tf.reduce_sum(tf.square(logits - labels))
        train = None if mode != "train" else p.gradient_descent().minimize(loss, v1.train.get_global_step())
        return v1.estimator.EstimatorSpec(mode, {"logits": logits}, loss, train)

    def read():
        given = {name: value for name, value in p.texts().items() if name in ("words", "hour", "label")}
        data = tf.data.Dataset.from_tensor_slices(
            {name: tf.SparseTensor.from_value(value) if name == "words" else value for name, value in given.items()})
        return data.batch(p.BATCH).map(lambda each: (each, each["label"])).prefetch(2)

    with columns.on("device"):
        estimator = v1.estimator.Estimator(model_fn, str(tmp_path), columns.config())
        estimator.train(read)
        estimator.evaluate(read)
        list(estimator.predict(read))
    assert len(seen) == 3 and seen[0] == seen[1] == seen[2] and len(seen[0]) == 2


# ---- sizes

def test_a_table_has_no_more_rows_than_its_column_has_buckets():
    with tf.Graph().as_default(), columns.on("device"):
        v1.feature_column.input_layer(p.batch()[0], [p.embedding(words(500))])
        assert [int(variable.shape[0]) for variable in asc.table_variables()] == [500]


# ---- optimizers

OPTIMIZERS = {
    "Adagrad": lambda: v1.train.AdagradOptimizer(0.05, initial_accumulator_value=0.3),
    "Ftrl": lambda: v1.train.FtrlOptimizer(0.05, l1_regularization_strength=0.01, l2_regularization_strength=0.02,
                                          initial_accumulator_value=0.2),
    "Ftrl with shrinkage": lambda: v1.train.FtrlOptimizer(
        0.05, learning_rate_power=-0.4, l2_shrinkage_regularization_strength=0.1),
    "callable rate": lambda: v1.train.GradientDescentOptimizer(lambda: 0.05),
    "callable rate of Adagrad": lambda: v1.train.AdagradOptimizer(lambda: 0.05),
    "tensor": lambda: v1.train.AdagradOptimizer(tf.constant(0.05)),
    "two": lambda: asc.Optimizer(v1.train.GradientDescentOptimizer(0.05), v1.train.AdagradOptimizer(0.05))}


def filled(features):
    """No bag is empty: TensorFlow would train row 0."""
    return v1.feature_column.input_layer(features, [p.embedding(fc.categorical_column_with_identity("user", 300))])


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_trains_a_table_as_its_variable(kind):
    ours = OPTIMIZERS[kind]
    theirs = OPTIMIZERS["tensor"] if kind == "two" else ours
    p.require_same(p.trained("device", filled, ours), p.trained("tensorflow", filled, theirs), 2e-5)


@pytest.mark.parametrize("kind", [v1.train.AdagradOptimizer, v1.train.GradientDescentOptimizer,
                                  v1.train.FtrlOptimizer])
def test_a_rate_that_decays_decays_for_tables(kind):
    def build(side):
        with tf.Graph().as_default(), columns.on(side):
            step = v1.train.get_or_create_global_step()
            features, iterator = p.batch(repeat=True)
            outputs = filled(features)
            loss = p.loss_of(outputs, features["label"])
            train = kind(v1.train.exponential_decay(0.1, step, 1, 0.5)).minimize(loss, step)
            with programs.session() as session:
                session.run([iterator.initializer, v1.global_variables_initializer()])
                found = [session.run([loss, outputs, train])[:2] for _ in range(p.STEPS)]
                assert session.run(step) == p.STEPS
        return found

    p.require_same(build("device"), build("tensorflow"), 2e-5)


def test_adam_is_lazy_and_a_warning_says_so(caplog):
    with caplog.at_level(logging.WARNING):
        found = p.trained("device", filled, lambda: v1.train.AdamOptimizer(0.01))
    assert len([each for each in caplog.records if "like LazyAdam" in each.getMessage()]) == 1
    expected = p.trained("tensorflow", filled, lambda: v1.train.AdamOptimizer(0.01), steps=1)
    np.testing.assert_array_equal(found[0][1], expected[0][1])


def test_one_optimizer_trains_two_graphs():
    optimizer = v1.train.AdagradOptimizer(0.05)
    expected = p.trained("tensorflow", filled, lambda: v1.train.AdagradOptimizer(0.05))
    for _ in range(2):
        p.require_same(p.trained("device", filled, lambda: optimizer), expected, 2e-5)


def test_gradients_of_tables_can_be_clipped_by_their_norm():
    def clipped():
        return contrib("estimator").clip_gradients_by_norm(p.gradient_descent(), 0.01)

    p.require_same(p.trained("device", filled, clipped), p.trained("tensorflow", filled, clipped), 2e-5)


def test_gradients_that_a_program_clips_train_tables():
    class Clipped:
        def minimize(self, loss):
            optimizer = p.gradient_descent()
            pairs = optimizer.compute_gradients(loss)
            gradients, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.05)
            return optimizer.apply_gradients(zip(gradients, [variable for _, variable in pairs]))

    p.require_same(p.trained("device", filled, Clipped), p.trained("tensorflow", filled, Clipped), 2e-5)


def test_gradients_of_columns_that_share_a_table_can_be_clipped_by_their_norm():
    """TensorFlow's gradient has the distinct ids of each column, of which some are in both."""
    def shared(features):
        other = dict(features, seller=tf.concat([features["user"][1:], features["user"][:1]], 0))
        return v1.feature_column.input_layer(other, v1.feature_column.shared_embedding_columns(
            [fc.categorical_column_with_identity(name, 300) for name in ("user", "seller")], p.DIM,
            initializer=p.constant()))

    def clipped():
        return contrib("estimator").clip_gradients_by_norm(p.gradient_descent(), 0.01)

    p.require_same(p.trained("device", shared, clipped), p.trained("tensorflow", shared, clipped), 2e-5)


# ---- channels

def test_rows_of_a_column_that_is_not_trainable_stay_as_they_began():
    def build(features):
        return tf.concat([v1.feature_column.input_layer(features, [p.embedding(words(), trainable=False)]),
                          filled(features)], axis=1)

    both(build)
    frozen = p.trained("device", build)
    assert set(np.unique(np.asarray(frozen[-1][1])[:, :p.DIM])) <= {0.0, 0.25}


def evaluated(build, start=False):
    features, iterator = p.batch()
    outputs = build(features)
    if start:
        asc.start()
    with programs.session() as session:
        session.run([iterator.initializer, v1.global_variables_initializer(), v1.tables_initializer()])
        return [session.run(outputs) for _ in range(p.STEPS)]


@pytest.mark.parametrize("build", [layer, filled, lambda features: v1.feature_column.input_layer(
    features, [p.embedding(words(), trainable=False)])])
def test_a_program_that_only_evaluates_has_initial_rows(build):
    with tf.Graph().as_default(), columns.on("device"):
        found = evaluated(build)
    with tf.Graph().as_default(), columns.on("tensorflow"):
        np.testing.assert_array_equal(found, evaluated(build))


def test_columns_of_tables_that_grow_train_as_those_of_tensorflow_do():
    expected = p.trained("tensorflow", filled)
    with tf.Graph().as_default(), columns.on("tensorflow"):
        asc.init(use_dynamic_expansion=True)
        asc.use_for_feature_columns(min_buckets=100)
        try:
            p.require_same(p.run(filled), expected)
        finally:
            asc.shutdown()
    with p.own(use_dynamic_expansion=True):
        def ours(features):
            column = asc.feature_column.categorical_column_with_int64("user")
            return v1.feature_column.input_layer(features, [asc.feature_column.embedding_column(
                column, p.DIM, initializer=p.constant(), device_vocabulary_size=1000)])

        p.require_same(p.run(ours, start=True), expected)


@pytest.mark.parametrize("build", [two_towers, again, linear_again])
def test_columns_of_tables_that_grow_may_be_looked_up_twice(build):
    expected = p.trained("tensorflow", build)
    with tf.Graph().as_default(), columns.on("tensorflow"):
        asc.init(use_dynamic_expansion=True)
        asc.use_for_feature_columns(min_buckets=100)
        try:
            p.require_same(p.run(build), expected, 1e-6)
        finally:
            asc.shutdown()


@pytest.mark.parametrize("starts", [False, True])
def test_the_norm_of_a_variable_is_0_and_one_warning_says_so(starts, caplog):
    with tf.Graph().as_default(), columns.on("device"):
        features, iterator = p.batch(repeat=True)
        outputs = two_towers(features)
        norm = tf.add_n([tf.nn.l2_loss(each) for each in v1.trainable_variables()])
        train = p.gradient_descent().minimize(p.loss_of(outputs, features["label"]) + norm)
        if starts:
            asc.start()
        with programs.session() as session, caplog.at_level(logging.WARNING):
            session.run([iterator.initializer, v1.global_variables_initializer()])
            assert [session.run([norm, train])[0] for _ in range(2)] == [0, 0]
    (said,) = [each.getMessage() for each in caplog.records if "l2_loss" in each.getMessage()]
    assert "user/input_layer" in said and "item/input_layer" in said


def test_zeros_are_counted_in_variables_alone():
    from tensorflow_estimator.python.estimator.canned import linear
    with tf.Graph().as_default(), columns.on("device"):
        v1.feature_column.linear_model(p.batch()[0], [words(), words(50, "hour")])
        small, large = (v1.trainable_variables("linear_model/" + name) for name in ("hour", "words"))
        fractions = [linear._compute_fraction_of_zero(some) for some in (small + large, small, large)]
        with programs.session() as session:
            session.run(v1.global_variables_initializer())
            values = session.run(fractions)
    assert values[:2] == [1, 1] and np.isnan(values[2])
