"""Session programs with feature columns that train one tower and evaluate another, in one graph, on the same tables."""
import contextlib

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import ColumnError
from tests.tf import column_programs as p
from tests.tf import columns, programs

fc = tf.feature_column
v1 = tf.compat.v1
pytestmark = [
    pytest.mark.timeout_s(120), pytest.mark.filterwarnings("ignore:distutils Version classes"),
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")]

ROUNDS = 4


@contextlib.contextmanager
def on(side):
    """As ``columns.on``; of "tiers" the device has room for a few batches."""
    with tf.Graph().as_default(), columns.on("tensorflow" if side == "tiers" else side):
        if side == "tiers":
            asc.use_for_feature_columns(min_buckets=100, device_vocabulary_size=64, host_vocabulary_size=300)
        try:
            yield
        finally:
            if side == "tiers":
                asc.shutdown()


def outputs_of(features):
    """One number for each row, by a deep and a linear part, under the same names in each call."""
    with v1.variable_scope("model", reuse=v1.AUTO_REUSE):
        deep = v1.feature_column.input_layer(features, [
            p.embedding(fc.categorical_column_with_identity("user", 300)), p.embedding(p.words(), "sum")])
        wide = v1.feature_column.linear_model(features, [p.words()])
        return v1.layers.dense(deep, 1, kernel_initializer=v1.ones_initializer(), name="dense") + wide


def loss_of(features):
    return tf.reduce_mean(tf.square(outputs_of(features)[:, 0] - features["label"]))


def rounds_of(session, train, evaluate, begin_to_evaluate):
    """Losses of training and of the evaluations between."""
    losses = []
    for _ in range(ROUNDS):
        losses.append([session.run(train)[0] for _ in range(3)])
        session.run(begin_to_evaluate)
        losses.append([session.run(evaluate) for _ in range(p.STEPS)])
    return np.array(sum(losses, []))


def require_close(found, expected):
    """Losses are the same, apart from the order of sums in a dense layer."""
    np.testing.assert_allclose(found, expected, 2e-6)


def begun(*iterators):
    session = programs.session()
    session.run([*(each.initializer for each in iterators), v1.global_variables_initializer(),
                 v1.local_variables_initializer()])
    return session


def two_iterators(side, order, optimizer=p.gradient_descent):
    with on(side):
        features, iterator = p.batch(repeat=True)
        held, held_iterator = p.batch(p.texts(seed=9))
        if order == "before":
            evaluated = loss_of(held)
        loss = loss_of(features)
        if order == "between":
            evaluated = loss_of(held)
        train = optimizer().minimize(loss)
        if order == "after":
            evaluated = loss_of(held)
        with begun(iterator) as session:
            return rounds_of(session, [loss, train], evaluated, held_iterator.initializer)


@pytest.mark.parametrize(("side", "order"), [
    ("device", "between"), ("device", "after"), ("tiers", "before"),
    pytest.param("device", "before", marks=pytest.mark.long), pytest.param("tiers", "after", marks=pytest.mark.long)])
def test_a_tower_over_a_second_iterator_evaluates_what_was_trained(side, order):
    expected = two_iterators("tensorflow", order)
    assert len(set(expected)) == len(expected)
    require_close(two_iterators(side, order), expected)


def test_an_optimizer_with_slots_trains_beside_a_tower_that_evaluates():
    def adagrad():
        return v1.train.AdagradOptimizer(0.1)

    require_close(two_iterators("device", "after", adagrad), two_iterators("tensorflow", "after", adagrad))


def test_a_tower_that_is_built_after_the_optimizer_evaluates_the_batches_of_training():
    def run(side):
        with on(side):
            features, iterator = p.batch(repeat=True)
            loss = loss_of(features)
            train = p.gradient_descent().minimize(loss)
            evaluated = loss_of(features)
            with begun(iterator) as session:
                return rounds_of(session, [loss, train], evaluated, [])

    require_close(run("device"), run("tensorflow"))


def datasets():
    return [tf.data.Dataset.from_tensor_slices({name: value for name, value in p.texts(seed=seed).items()
                                                if isinstance(value, np.ndarray)}).repeat(repeat).batch(p.BATCH)
            for seed, repeat in ((3, None), (9, 1))]


def of_user(features):
    with v1.variable_scope("model", reuse=v1.AUTO_REUSE):
        rows = v1.feature_column.input_layer(
            features, [p.embedding(fc.categorical_column_with_identity("user", 300))])
    return tf.reduce_mean(tf.square(tf.reduce_sum(rows, 1) - features["label"]))


def test_one_iterator_that_two_datasets_initialise_trains_and_evaluates():
    def run(side):
        with on(side):
            train_data, held_data = datasets()
            iterator = v1.data.Iterator.from_structure(
                v1.data.get_output_types(train_data), v1.data.get_output_shapes(train_data))
            begin_training, begin_to_evaluate = map(iterator.make_initializer, (train_data, held_data))
            loss = of_user(iterator.get_next())
            train = p.gradient_descent().minimize(loss)
            found = []
            with begun() as session:
                for _ in range(ROUNDS):
                    session.run(begin_training)
                    found.extend(session.run([loss, train])[0] for _ in range(3))
                    session.run(begin_to_evaluate)
                    found.extend(session.run(loss) for _ in range(p.STEPS))
                return found

    assert run("device") == run("tensorflow")


def test_a_metric_of_the_tower_that_evaluates_is_that_of_tensorflow():
    def run(side):
        with on(side):
            features, iterator = p.batch(repeat=True)
            held, held_iterator = p.batch(p.texts(seed=9))
            metric, update = v1.metrics.mean(outputs_of(held), name="metric")
            train = p.gradient_descent().minimize(loss_of(features))
            found = []
            with begun(iterator) as session:
                for _ in range(ROUNDS):
                    session.run([train, *v1.local_variables("metric")])
                    session.run([held_iterator.initializer, v1.local_variables_initializer()])
                    for _ in range(p.STEPS):
                        session.run(update)
                    found.append(session.run(metric))
            return found

    require_close(run("device"), run("tensorflow"))


def test_two_losses_of_one_graph_train_a_table_each():
    def run(side):
        with on(side):
            features, iterator = p.batch(repeat=True)
            losses, steps = [], []
            for name in ("one", "other"):
                with v1.variable_scope(name):
                    losses.append(loss_of(features))
            for loss in losses:
                steps.append(p.gradient_descent().minimize(loss))
            with begun(iterator) as session:
                return [session.run([*losses, *steps])[:2] for _ in range(p.STEPS)]

    require_close(run("device"), run("tensorflow"))


def third_iterator():
    features, iterator = p.batch()
    p.gradient_descent().minimize(loss_of(features))
    for seed in (9, 10):
        loss_of(p.batch(p.texts(seed=seed))[0])
    begun(iterator)


def two_get_nexts():
    features, iterator = p.batch()
    p.gradient_descent().minimize(loss_of(features))
    loss_of(iterator.get_next())
    begun(iterator)


def two_that_train():
    features, iterator = p.batch()
    p.gradient_descent().minimize(loss_of(features) + loss_of(p.batch(p.texts(seed=9))[0]))
    begun(iterator)


@pytest.mark.parametrize(("program", "why"), [
    (third_iterator, "the evaluation lookups.*must use batches of one.*a separate graph.*as Estimators"),
    (two_get_nexts, "'IteratorGetNext_1'.*'IteratorGetNext'.*Share the result of one get_next.."),
    (two_that_train, "the training lookups.*must use batches of one.*one iterator from several datasets")])
def test_batches_of_several_get_nexts_for_one_use_of_a_table_are_refused(program, why):
    with on("device"), pytest.raises(ValueError, match=why):
        program()


@pytest.mark.parametrize("same", [True, False])
def test_a_second_loss_that_would_train_a_later_tower_is_refused(same):
    with on("device"):
        features, _ = p.batch()
        p.gradient_descent().minimize(loss_of(features))
        later = loss_of(features if same else p.batch(p.texts(seed=9))[0])
        with pytest.raises(ColumnError, match="user_embedding.*earlier minimize.*built later.*Build all towers"):
            p.gradient_descent().minimize(later)
        dense = v1.trainable_variables("model/dense")
        p.gradient_descent().minimize(later, var_list=dense)


def test_a_tower_that_is_built_after_a_session_ran_is_refused():
    with on("device"):
        features, iterator = p.batch()
        p.gradient_descent().minimize(loss_of(features))
        begun(iterator).close()
        with pytest.raises(ColumnError, match="user_embedding.*first run of a session.*Build all towers"):
            loss_of(p.batch(p.texts(seed=9))[0])


def test_a_tower_that_evaluates_tables_of_its_own_names_is_refused():
    with on("device"):
        features, iterator = p.batch()
        p.gradient_descent().minimize(loss_of(features))
        with v1.variable_scope("other"):
            loss_of(p.batch(p.texts(seed=9))[0])
        with pytest.raises(ColumnError, match="other/model.*beside an optimizer.*no optimizer updates.*AUTO_REUSE"):
            begun(iterator)
