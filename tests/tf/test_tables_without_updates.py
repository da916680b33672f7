"""A table that a loss depends on is trained, or the program is refused; it never stays as it began without a word."""
import random

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import TableUseError, UntrainedTableError
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.util.ops import import_host_pipeline_ops
from tests.support.tensorflows import IS_TENSORFLOW_1
from tests.tf import programs, twin_programs
from tests.tf.estimators import event_files
from tests.tf.twin_programs import RATE, contrib
from tests.tf.ways_to_train import (
    FORGET,
    TRAIN,
    by_gradients,
    by_keras,
    by_layers_of_both,
    by_tensorflows,
    by_training,
    by_two_optimizers,
    check,
    each_by_its_loss,
    minimize,
    minimized_in_a_conditional,
    name_of,
    one_table_alone,
    one_table_by_the_wrong_loss,
    step,
)

v1 = tf.compat.v1
pytestmark = pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")


#: In the default suite; each way in each tier is long.
SHOWN = [(minimize, "device"), (by_gradients, "host"), (by_layers_of_both, "expansion"), (by_training, "host"),
         (by_tensorflows, "expansion"), (minimized_in_a_conditional, "host")]


@pytest.mark.parametrize("way, tier", [
    pytest.param(way, tier, marks=[] if (way, tier) in SHOWN else pytest.mark.long)
    for way in TRAIN for tier in ("device", "host", "expansion")], ids=lambda value: getattr(value, "__name__", value))
def test_a_way_that_finds_tables_trains_them_as_tensorflow_trains_variables(way, tier, tmp_path):
    assert check(way, "adagrad", tier, "tensors" if tier == "device" else "features", tmp_path) is None


@pytest.mark.parametrize("mode", ["tensors", "features"])
@pytest.mark.parametrize("way", FORGET, ids=name_of)
@pytest.mark.each_value
def test_a_way_that_finds_no_table_is_refused_before_the_first_update(way, mode, tmp_path):
    error = check(way, "gradient_descent", "host", mode, tmp_path)
    assert isinstance(error, UntrainedTableError)
    forgotten = "item" if way in (one_table_alone, one_table_by_the_wrong_loss) else "user"
    assert "Table {!r}".format(forgotten) in str(error)
    assert "asc.table_variables()" in str(error)
    assert "trainable=False" in str(error)


# ---- the words of the API that the program calls

def incumbent_program(train, **given):
    """A program of the incumbent over one table, until its first run."""
    with programs.ascpipe(**given):
        spec = FeatureSpec("user")
        data = tf.data.Dataset.from_tensor_slices({"user": np.arange(12)}).batch(4).map(get_asc_insert_func(spec))
        batch = v1.data.make_one_shot_iterator(data.prefetch(2)).get_next()
        table = create_table(tf.int64, 3, "user", v1.ones_initializer(), device_vocabulary_size=50)
        rows = sparse_lookup(table, spec, batch=batch)
        weights = v1.get_variable("weights", [3], initializer=v1.ones_initializer())
        train(tf.reduce_sum(tf.square(rows * weights)))
        start_asc_pipeline()
        with programs.session() as run:
            run.run(v1.global_variables_initializer())


@pytest.mark.parametrize("expands, text", [
    (False, r"get_dense_and_sparse_variable\(\).*lazy_adam\.create_hash_optimizer\(\).*is_train=False"),
    (True, r"'ASCEND_SPARSE_LOOKUP_LOCAL_EMB'.*optimizer_by_address\(\).*'ASCEND_SPARSE_LOOKUP_ID_OFFSET'")])
def test_a_program_of_the_incumbent_is_told_in_its_words(expands, text):
    with pytest.raises(UntrainedTableError, match=text):
        incumbent_program(v1.train.AdamOptimizer(0.1).minimize, use_dynamic_expansion=expands)


@pytest.mark.parametrize("train", [
    v1.train.AdagradOptimizer(0.1).minimize,
    lambda loss: contrib("layers").optimize_loss(loss, step(), RATE, "Adagrad", variables=[])])
def test_a_model_of_tables_alone_is_told_how_to_train_them(train):
    with twin_programs.ascpipe():
        batch = v1.data.make_one_shot_iterator(
            tf.data.Dataset.from_tensor_slices({"user": np.arange(12)}).batch(4)).get_next()
        table = asc.create_table("user", 3, initializer=v1.ones_initializer(), device_vocabulary_size=50)
        loss = tf.reduce_sum(asc.sparse_lookup(table, batch["user"]))
        with pytest.raises(UntrainedTableError, match=r"'user'.*asc\.optimizers"):
            train(loss)


def test_a_program_of_the_incumbent_may_update_rows_by_their_handles():
    def train(loss):
        local, handles = (v1.get_collection(name) for name in (
            programs.ASCEND_SPARSE_LOOKUP_LOCAL_EMB, programs.ASCEND_SPARSE_LOOKUP_ID_OFFSET))
        (gradient,) = tf.gradients(loss, local)
        import_host_pipeline_ops().embedding_update_by_address(
            tf.gather(handles[0], gradient.indices), -0.1 * gradient.values)
        v1.train.GradientDescentOptimizer(0.1).minimize(loss)

    incumbent_program(train, use_dynamic_expansion=True)


def test_an_optimizer_that_is_made_after_the_first_run_is_refused_at_the_next():
    with twin_programs.ascpipe():
        iterator = v1.data.make_initializable_iterator(
            tf.data.Dataset.from_tensor_slices({"user": np.arange(12)}).batch(4))
        table = asc.create_table("user", 3, initializer=v1.ones_initializer(), device_vocabulary_size=50)
        rows = asc.sparse_lookup(table, iterator.get_next()["user"])
        weights = v1.get_variable("weights", [3], initializer=v1.ones_initializer())
        loss = tf.reduce_sum(tf.square(rows * weights))
        asc.start()
        with programs.session() as run:
            run.run([iterator.initializer, v1.global_variables_initializer()])
            run.run(loss)
            train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
            for _ in range(2):
                with pytest.raises(UntrainedTableError, match="'user'"):
                    run.run(train)


# ---- Estimators

def estimated(folder, train, strategy=None):
    """An Estimator whose model function makes the training op in each mode."""
    def input_fn():
        users = np.random.RandomState(1).randint(0, 40, 200)
        data = tf.data.Dataset.from_tensor_slices(({"user": users}, np.float32(users % 3 == 0)))
        return data.repeat(5).batch(50).prefetch(4)

    def model_fn(features, labels, mode):
        training = mode == v1.estimator.ModeKeys.TRAIN
        table = asc.create_table("user", 4, initializer=v1.ones_initializer(), device_vocabulary_size=50)
        logits = tf.reduce_sum(asc.sparse_lookup(table, features["user"], training=training), 1)
        if mode == v1.estimator.ModeKeys.PREDICT:
            return v1.estimator.EstimatorSpec(mode, predictions=tf.sigmoid(logits))
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        return v1.estimator.EstimatorSpec(mode, loss=loss, train_op=train(loss))

    config = v1.estimator.RunConfig(str(folder), train_distribute=strategy)
    return v1.estimator.Estimator(model_fn, config=config), input_fn, {"hooks": [asc.StartHook()]}


def test_a_training_op_that_a_model_function_makes_in_each_mode_trains_in_one(tmp_path):
    with twin_programs.ascpipe(), event_files():
        estimator, input_fn, hooks = estimated(
            tmp_path, lambda loss: asc.optimizers.Adagrad(0.5).minimize(loss, v1.train.get_global_step()))
        estimator.train(input_fn, **hooks)
        assert estimator.evaluate(input_fn, **hooks)["loss"] < 0.9
        assert len(list(estimator.predict(input_fn, **hooks))) == 1000


def test_an_estimator_whose_tables_nothing_trains_is_refused(tmp_path):
    def train(loss):
        bias = v1.get_variable("bias", [], initializer=v1.zeros_initializer())
        return v1.train.AdagradOptimizer(0.5).minimize(loss + bias, v1.train.get_global_step())

    with twin_programs.ascpipe(), event_files():
        estimator, input_fn, hooks = estimated(tmp_path, train)
        with pytest.raises(UntrainedTableError, match="'user'"):
            estimator.train(input_fn, **hooks)


@pytest.mark.parametrize("strategy", [tf.distribute.MirroredStrategy, tf.distribute.OneDeviceStrategy])
def test_a_strategy_of_tensorflow_is_refused(strategy, tmp_path):
    with twin_programs.ascpipe(), event_files():
        estimator, input_fn, hooks = estimated(tmp_path, lambda loss: asc.optimizers.Adagrad(0.5).minimize(
            loss + v1.get_variable("bias", [], initializer=v1.zeros_initializer())), strategy(
                ["/cpu:0"] if strategy is tf.distribute.MirroredStrategy else "/cpu:0"))
        # MirroredStrategy of TensorFlow 2.15 raises another class of exception, which has the message.
        with pytest.raises(TableUseError if IS_TENSORFLOW_1 else Exception,
                           match="(?s)E253.*'user'.*train_distribute.*ascpipe run --ranks"):
            estimator.train(input_fn, **hooks)


# ---- compositions

def random_compositions(count, seed):
    choose = random.Random(seed)
    while count:
        tier = choose.choice(sorted(twin_programs.TIERS))
        kind = choose.choice(sorted(twin_programs.OPTIMIZERS))
        way = choose.choice([*TRAIN, *TRAIN, *FORGET])
        mode = choose.choice(["features", "tensors"])
        frozen = {name: choose.choice(sorted(twin_programs.FREEZES)) for name in ("user", "item")
                  if choose.random() < 0.25}
        if tier == "expansion" and kind == "ftrl" or mode == "features" and "training=False" in frozen.values():
            continue
        if len(frozen) >= {each_by_its_loss: 1, by_keras: 1, by_two_optimizers: 2}.get(way, 3):
            continue  # TensorFlow refuses an optimizer without any gradient, and Keras one without all gradients
        count -= 1
        yield way, kind, tier, mode, frozen


def sweep(count, seed, folder):
    """How many of random compositions were refused."""
    return twin_programs.refused(random_compositions(count, seed), lambda way, kind, tier, mode, frozen: check(
        way, kind, tier, mode, folder, frozen))


def test_random_ways_train_as_in_tensorflow_or_are_refused(tmp_path):
    assert 0 < sweep(5, 2, tmp_path) < 5


@pytest.mark.long
@pytest.mark.timeout_s(1800)
@pytest.mark.parametrize("seed", range(10))
def test_many_random_ways_train_as_in_tensorflow_or_are_refused(seed, tmp_path):
    assert 0 < sweep(50, 100 + seed, tmp_path) < 50
