"""``asc.optimizers.accumulate`` trains as a program of TensorFlow that keeps sums of gradients in variables."""
import contextlib
from random import Random

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import NotBuiltYetError, TableUseError
from tests.support.covering import some
from tests.tf import twin_programs, ways_to_train
from tests.tf.accumulating import BATCH, IDS, LABELS, K, accumulated, by_hand
from tests.tf.test_gradients_of_tables import LINEAR, NOT_LINEAR, trained_by
from tests.tf.twin_programs import RATE, require_equal_or_refused

v1 = tf.compat.v1
#: The device holds the keys of a cycle, and not all keys.
SIZES = {"user": {"device_vocabulary_size": 32, "host_vocabulary_size": 60},
         "item": {"device_vocabulary_size": 18, "host_vocabulary_size": 60}}
DISK = {"user": {"device_vocabulary_size": 32, "host_vocabulary_size": 33, "ssd_vocabulary_size": 60},
        "item": {"device_vocabulary_size": 18, "host_vocabulary_size": 19, "ssd_vocabulary_size": 60}}


@pytest.fixture(autouse=True)
def _kinds(monkeypatch):
    for kind, (ours, plain) in list(twin_programs.OPTIMIZERS.items()):
        monkeypatch.setitem(twin_programs.OPTIMIZERS, "accumulated_" + kind, (accumulated(ours), by_hand(plain)))
    monkeypatch.setitem(twin_programs.TIERS, "cycle", SIZES)
    monkeypatch.setitem(twin_programs.TIERS, "disk cycle", DISK)


def require_equal(train, kind, tier, mode="tensors", folder="."):
    """The program with an accumulating optimizer trains as that of TensorFlow does with sums in variables."""
    found = twin_programs.ours(train("accumulated_" + kind), tier, mode, folder)
    assert found.error is None, found.error
    assert not require_equal_or_refused(found, twin_programs.plain(train("accumulated_" + kind)))


#: The other ways leave batches out, whose number counts, or sum gradients of tables by hand.
WAYS = [way for way in ways_to_train.TRAIN
        if "conditional" not in way.__name__ and way is not ways_to_train.by_tensorflows]
KINDS = ["gradient_descent", "adagrad", "ftrl", "lazy_adam"]


@pytest.mark.parametrize("way", some(
    WAYS, ways_to_train.minimize, ways_to_train.in_two_calls, ways_to_train.by_both, ways_to_train.each_by_its_loss),
    ids=ways_to_train.name_of)
def test_sums_are_applied_as_in_tensorflow_whatever_way_a_program_trains(way):
    require_equal(way, KINDS[WAYS.index(way) % len(KINDS)], "cycle")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tier", ["device", "cycle", "disk cycle", "expansion"])
@pytest.mark.parametrize("mode", ["tensors", "features"])
@pytest.mark.each_value
def test_sums_are_applied_as_in_tensorflow_in_every_tier(kind, tier, mode, tmp_path):
    if (kind, tier) == ("ftrl", "expansion"):
        with pytest.raises(ValueError, match="E270: Ftrl cannot train tables that grow"):
            twin_programs.ours(ways_to_train.minimize("accumulated_ftrl"), tier, mode)
        return
    require_equal(ways_to_train.minimize, kind, tier, mode, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("number", range(10))
def test_many_random_compositions(number, tmp_path):
    """Changes of the gradient of a batch, before it is added, too."""
    random = Random(number)
    for _ in range(30):
        changes = random.sample([*LINEAR, *NOT_LINEAR], random.randint(0, 2))
        way = random.choice([*WAYS, *[lambda kind, changes=changes: trained_by(kind, changes)] * 8])
        kind = random.choice(KINDS)
        tiers = ["device", "cycle", "disk cycle", *(["expansion"] if kind != "ftrl" and not changes else [])]
        given = kind, random.choice(tiers), random.choice(["tensors", "features"])
        if given[1] == "expansion" and way in (ways_to_train.by_layers_of_both, ways_to_train.by_both):
            given = kind, "device", given[2]
        try:
            require_equal(way, *given, tmp_path)
        except Exception as error:
            raise AssertionError("{} {} {}: {}".format(
                way.__name__, [each.__name__ for each in changes], given, error)) from error


def test_k_1_changes_nothing():
    with twin_programs.ascpipe():
        optimizer = asc.optimizers.Adagrad(0.1)
        assert asc.optimizers.accumulate(optimizer, 1) is optimizer


@pytest.mark.parametrize("given", [(None, 3), ("Adagrad", 3), (lambda: None, 3)], ids=repr)
def test_what_is_no_optimizer_is_refused(given):
    with twin_programs.ascpipe(), pytest.raises(
            ValueError, match="E260: .*parameter optimizer: .*expected a tf.compat.v1.train"):
        asc.optimizers.accumulate(*given)


@pytest.mark.parametrize("k", [0, -1, 1001, 2.5, "3", True])
def test_wrong_numbers_are_refused(k):
    with twin_programs.ascpipe(), pytest.raises(ValueError, match="argument k"):
        asc.optimizers.accumulate(asc.optimizers.Adagrad(0.1), k)


@pytest.mark.parametrize("given", [{"use_dynamic_expansion": True}, {"use_dynamic": False}, {}],
                         ids=["an optimizer of TensorFlow for tables that grow", "static shapes", "ranks"])
def test_what_is_not_built_is_refused(given, monkeypatch):
    if not given:
        monkeypatch.setenv("HOROVOD_RANK", "0")
        monkeypatch.setenv("HOROVOD_SIZE", "2")
    with twin_programs.ascpipe(**given), pytest.raises(NotBuiltYetError, match="accumulate.*not supported"):
        asc.optimizers.accumulate(v1.train.GradientDescentOptimizer(0.1), 2)


@pytest.mark.parametrize("optimizers", [1, 2])
def test_gradients_of_one_table_that_are_accumulated_twice_are_refused(optimizers):
    """For example two tasks that are trained in turns: the one of them may never have the last batch of a cycle."""
    def train(model):
        made = [asc.optimizers.accumulate(model.optimizer("adagrad"), K) for _ in range(optimizers)]
        return tf.group(*(each.minimize(model.loss, var_list=asc.table_variables()) for each in (made[0], made[-1])))

    error = twin_programs.ours(train, "device").error
    assert isinstance(error, TableUseError)
    assert "accumulated twice" in str(error)


def scalars():
    return [v1.get_variable(name, [], initializer=v1.ones_initializer(), use_resource=True) for name in ("a", "b")]


def test_gradients_of_one_variable_that_are_accumulated_twice_are_refused():
    with twin_programs.ascpipe():
        optimizer, (weight, bias) = accumulated(lambda: v1.train.GradientDescentOptimizer(RATE))(), scalars()
        optimizer.minimize(weight * 2)
        with pytest.raises(ValueError, match="applied twice to variable 'a'"):
            optimizer.minimize(weight * bias)


def test_one_optimizer_counts_the_batches_of_each_training_op():
    found = []
    with twin_programs.ascpipe():
        for make in (accumulated, by_hand):
            with tf.Graph().as_default():
                optimizer, variables = make(lambda: v1.train.GradientDescentOptimizer(RATE))(), scalars()
                train = [optimizer.minimize(tf.square(each), var_list=[each]) for each in variables]
                with v1.Session() as session:
                    session.run(v1.global_variables_initializer())
                    found.append([session.run([train, variables])[1] for _ in range(2 * K + 1)][-1])
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_tables_of_two_datasets_under_one_optimizer_are_refused():
    with twin_programs.ascpipe():
        rows = []
        for name in ("user", "item"):
            table = asc.create_table(name, 2, device_vocabulary_size=64, initializer=v1.ones_initializer())
            data = tf.data.Dataset.from_tensor_slices(IDS).batch(BATCH)
            rows.append(asc.sparse_lookup(table, v1.data.make_one_shot_iterator(data).get_next()))
        asc.optimizers.accumulate(asc.optimizers.Adagrad(0.1), K).minimize(tf.reduce_sum(tf.add(*rows)))
        asc.start()
        with pytest.raises(TableUseError, match="E253.*two datasets"), v1.Session() as session:
            session.run(v1.global_variables_initializer())


def test_dense_variables_alone_are_accumulated_too():
    found = []
    with twin_programs.ascpipe():
        for make in (accumulated(lambda: v1.train.AdagradOptimizer(RATE)), by_hand(
                lambda: v1.train.AdagradOptimizer(RATE))):
            with tf.Graph().as_default():
                weights = v1.get_variable("weights", [4, 2], initializer=v1.ones_initializer())
                bias = v1.get_variable("bias", [], initializer=v1.ones_initializer(), use_resource=True)
                ids = v1.placeholder(tf.int32, [3])
                loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(weights, ids) - bias * 3))
                train = make().minimize(loss)
                with v1.Session() as session:
                    session.run(v1.global_variables_initializer())
                    for step in range(2 * K + 1):
                        session.run(train, {ids: [step % 3, 0, 1]})
                    found.append(session.run([weights, bias]))
    for ours, plain in zip(*found):
        np.testing.assert_allclose(ours, plain, rtol=1e-6)


def input_of(columns):
    """Batches of BATCH rows for an Estimator."""
    return tf.data.Dataset.from_tensor_slices((columns, (LABELS > 0.5).astype(np.float32)[:, np.newaxis])).batch(BATCH)


def model_of(make):
    """A model function that asks for a training op in each mode, where tables are looked up."""
    column = tf.feature_column.embedding_column(
        tf.feature_column.categorical_column_with_identity("ids", 30), 3, initializer=v1.constant_initializer(0.3))

    def model_fn(features, labels, mode):
        rows = v1.feature_column.input_layer(features, [column])
        weights = v1.get_variable("weights", [3, 1], initializer=v1.constant_initializer(0.2), use_resource=True)
        loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights) - labels))
        trains = make is accumulated or mode == v1.estimator.ModeKeys.TRAIN
        optimizer = make(lambda: v1.train.AdagradOptimizer(0.1))()
        train = optimizer.minimize(loss, v1.train.get_global_step()) if trains else tf.no_op()
        return v1.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    return model_fn


def test_an_estimator_trains_evaluates_and_trains_on_with_tables_behind_columns(tmp_path):
    found = []
    for make in (accumulated, by_hand):
        with contextlib.ExitStack() as end:
            if make is accumulated:
                asc.use_for_feature_columns(min_buckets=10)
                end.callback(asc.shutdown)
            config = v1.estimator.RunConfig(save_summary_steps=None, tf_random_seed=1)
            estimator = v1.estimator.Estimator(model_of(make), str(tmp_path / make.__name__), config)
            for _ in range(2):
                estimator.train(lambda: input_of({"ids": IDS[:, 0]}), steps=K + 1)  # the session has read ahead
                found.append(estimator.evaluate(lambda: input_of({"ids": IDS[:, 0]}))["loss"])
    v1.summary.FileWriterCache.clear()
    np.testing.assert_allclose(found[:2], found[2:], rtol=1e-5)
    assert found[0] > found[1]
