"""TensorFlow calls what replaces each of its attributes, in a program that needs it: an attribute that TensorFlow has
but no longer uses would leave tables out without an error."""
import contextlib
import functools

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
import ascpipe.tf.api.installing  # noqa: F401  the modules with all replacements
import mx_rec.util.ops  # noqa: F401
from ascpipe.errors import AscpipeError
from ascpipe.tf import patches
from ascpipe.tf.running.column_choice import Columns
from ascpipe.tf.running.process import Process
from mx_rec.util.initialize import init
from tests.support.tensorflows import keras_optimizers

v1 = tf.compat.v1
ROWS, DIM = 40, 4
#: Name of a program -> the attributes that it reaches.
REACHES = {}
PROGRAMS = {}


def program(*reached):
    """Note a program and what it reaches. It gets an empty folder, and calls ``init``."""
    def noted(function):
        PROGRAMS[function.__name__], REACHES[function.__name__] = function, reached
        return function
    return noted


@contextlib.contextmanager
def recorded():
    """Yield the set of patches whose replacement was called."""
    reached = set()

    def recording(patch, replacement):
        if isinstance(replacement, property):
            return property(recording(patch, replacement.fget))

        @functools.wraps(replacement)
        def call(*args, **kwargs):
            reached.add(patch)
            return replacement(*args, **kwargs)
        return call

    with pytest.MonkeyPatch.context() as monkeypatch:
        for patch in patches.PATCHES:
            monkeypatch.setattr(patch, "_replacement", recording(patch, patch._replacement))
        yield reached


def numbers(training=True):
    """Ids and labels of a few batches."""
    ids = np.random.RandomState(3).randint(0, ROWS, [6, 5])
    return tf.data.Dataset.from_tensor_slices(({"ids": ids}, np.float32(ids[:, :1] % 2)))


def table():
    return asc.create_table("t", DIM, device_vocabulary_size=ROWS, initializer=v1.random_normal_initializer(seed=2))


def loss_of(ids, labels):
    rows = tf.reduce_sum(asc.sparse_lookup(table(), ids), [1, 2])
    return v1.losses.sigmoid_cross_entropy(labels, rows[:, tf.newaxis] + v1.get_variable("bias", [], use_resource=True))


def batches():
    features, labels = v1.data.make_one_shot_iterator(numbers().repeat().batch(2).prefetch(4)).get_next()
    return features["ids"], labels


@program(patches.SAVER_BUILD, patches.SAVER_SAVE, patches.SAVER_RESTORE, patches.COMPUTE_GRADIENTS,
         patches.APPLY_GRADIENTS, patches.GRADIENTS, patches.SESSION_CALL, patches.RUN_LOCK)
def session_loop(folder):
    asc.init()
    train = asc.optimizers.Adagrad(0.1).minimize(loss_of(*batches()))
    saver = v1.train.Saver()
    asc.start()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.make_callable(train)()
        saver.save(session, folder + "/model")
        saver.restore(session, folder + "/model")


@program(patches.HOOK_BEGIN, patches.FINALIZE)
def monitored_session(folder):
    asc.init()
    train = asc.optimizers.Adagrad(0.1).minimize(loss_of(*batches()), v1.train.get_or_create_global_step())
    asc.start()
    with v1.train.MonitoredTrainingSession(checkpoint_dir=folder) as session:
        session.run(train)


@program(patches.SUPERVISOR_INIT)
def supervisor(folder):
    asc.init()
    loss = loss_of(*batches())
    train = asc.optimizers.Adagrad(0.1).minimize(loss, v1.train.get_or_create_global_step())
    asc.start()
    with v1.train.Supervisor(logdir=folder, save_model_secs=0, save_summaries_secs=0).managed_session() as session:
        session.run(train)


@program(patches.TAPE_GRADIENT)
def gradient_tape(folder):
    asc.init()
    with tf.GradientTape(persistent=True) as tape:
        loss = loss_of(*batches())
    tape.gradient(loss, v1.trainable_variables())


@program(patches.MOVING_AVERAGES)
def moving_averages(folder):
    asc.init()
    with pytest.raises(AscpipeError):
        tf.train.ExponentialMovingAverage(0.9).apply([table().variable])


@program(patches.FREEZE)
def frozen_graph(folder):
    asc.init()
    loss = loss_of(*batches())
    asc.optimizers.Adagrad(0.1).minimize(loss)
    asc.start()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        with pytest.raises(AscpipeError):
            v1.graph_util.convert_variables_to_constants(session, session.graph_def, [loss.op.name])


@program(patches.FIRST_USES, patches.KERAS_DATA)
def keras_model(folder):
    model = v1.keras.Sequential([v1.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    asc.init()
    v1.keras.Sequential()
    spec = asc.FeatureSpec("ids", table_name="t")
    data = tf.data.Dataset.from_tensors({"ids": np.arange(4)}).map(asc.insert_function(spec)).prefetch(2)
    rows = asc.sparse_lookup(table(), spec, batch=v1.data.make_one_shot_iterator(data).get_next())
    with pytest.raises(AscpipeError):
        model.fit(rows, tf.zeros([4, 1]), steps_per_epoch=1, verbose=0)


@program(patches.GET_NEXT, patches.EOS_MAP, patches.SESSION_INIT)
def rec_sdk_program(folder):
    init()
    patches.HOST_OPS.use()
    patches.ACCELERATOR_OPTIONS.use()
    data = tf.data.Dataset.range(3).eos_map(None, 0, 1, 1)
    batch = data.make_one_shot_iterator() if hasattr(data, "make_one_shot_iterator") else (
        v1.data.make_one_shot_iterator(data))
    with v1.Session() as session:
        session.run(batch.get_next())


def model_fn(features, labels, mode):
    if mode == v1.estimator.ModeKeys.PREDICT:
        return v1.estimator.EstimatorSpec(
            mode, tf.reduce_sum(asc.sparse_lookup(table(), features["ids"], training=False), [1, 2], name="sum"))
    loss = loss_of(features["ids"], labels)
    return v1.estimator.EstimatorSpec(mode, loss=loss, train_op=asc.optimizers.Adagrad(0.1).minimize(
        loss, v1.train.get_global_step()))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder of an Estimator that was trained."""
    folder = str(tmp_path_factory.mktemp("trained"))
    v1.reset_default_graph()
    asc.init()
    try:
        v1.estimator.Estimator(model_fn, folder).train(
            lambda: numbers().batch(2).prefetch(4), steps=2, hooks=[asc.StartHook()])
    finally:
        asc.shutdown()
        v1.summary.FileWriterCache.clear()
    return folder


@program(patches.CALL_MODEL_FN, patches.ADD_META_GRAPH, patches.EXPORT_ALL,
         patches.EXPORT_DIRECTORY)
def exporting_estimator(folder):
    asc.init()
    one = v1.estimator.Estimator(model_fn, folder)
    one.train(lambda: numbers().batch(2).prefetch(4), steps=2, hooks=[asc.StartHook()])
    given = {"ids": v1.placeholder(tf.int64, [None, 5])}
    one.export_saved_model(folder + "/export", v1.estimator.export.build_raw_serving_input_receiver_fn(given))


@program(patches.WARM_START, patches.SCAFFOLD_INIT_FN)
def warm_starting_estimator(folder, trained):
    asc.init()
    one = v1.estimator.Estimator(model_fn, folder, warm_start_from=trained)
    one.train(lambda: numbers().batch(2).prefetch(4), steps=2, hooks=[asc.StartHook()])


def words(name="words"):
    return v1.feature_column.categorical_column_with_hash_bucket(name, 200)


def sentences():
    given = tf.SparseTensor([[0, 0], [1, 0]], ["a", "b"], [2, 1])
    return {"words": given, "others": given}


@program(patches.CREATE_VARIABLE, patches.SHARED_WEIGHTS, patches.CREATE_LAYER_VARIABLE)
def layers_of_columns(folder):
    asc.init()
    v1.keras.layers.DenseFeatures([asc.feature_column.embedding_column(words(), DIM)])(sentences())
    asc.use_for_feature_columns(min_buckets=1)
    shared = tf.compat.v2.feature_column.shared_embeddings([words(), words("others")], DIM)
    v1.keras.layers.DenseFeatures(shared)(sentences())
    tf.compat.v2.keras.layers.DenseFeatures([v1.feature_column.embedding_column(words(), DIM)], name="later")(
        sentences())
    told = Columns.of(Process.current()).told
    assert told["later/words_embedding/embedding_weights"].startswith("its layer is a layer of TensorFlow 2; use ")


@program(patches.EMBEDDING_COLUMN, patches.SHARED_COLUMN, patches.LINEAR_COLUMN, patches.SAFE_LOOKUP)
def older_columns(folder):
    asc.init()
    v1.feature_column.input_layer(sentences(), [asc.feature_column.embedding_column(words(), DIM)])
    v1.feature_column.input_layer(
        sentences(), asc.feature_column.shared_embedding_columns([words(), words("others")], DIM))
    v1.feature_column.linear_model(sentences(), [asc.feature_column.linear_weights(words())])


@program(patches.INIT_FROM_CHECKPOINT, patches.WARM_STARTED)
def variables_from_a_checkpoint(folder, trained):
    asc.init()
    bias = v1.get_variable("bias", [])
    v1.train.init_from_checkpoint(trained, {"bias": bias})
    v1.train.warm_start(trained, [bias])


def labelled():
    return tf.data.Dataset.from_tensors(({"words": tf.constant([["a"], ["b"]])}, tf.constant([[0.0], [1.0]]))).repeat()


@program(patches.FRACTION_OF_ZERO)
def linear_estimator(folder):
    asc.init()
    v1.estimator.LinearClassifier([asc.feature_column.linear_weights(words())], folder).train(labelled, steps=1)


@program(patches.SDCA_STEP)
def linear_estimator_with_dual_ascent(folder):
    asc.init()
    sdca = v1.estimator.experimental.LinearSDCA("id")
    with pytest.raises(AscpipeError):
        v1.estimator.LinearClassifier(
            [asc.feature_column.linear_weights(words())], folder, optimizer=sdca).train(
                lambda: labelled().map(lambda features, labels: (dict(features, id=tf.constant(["0", "1"])), labels)),
                steps=1)


@program(patches.KERAS_GRADIENTS)
def keras_optimizer(folder):
    asc.init()
    layer = v1.keras.layers.DenseFeatures([asc.feature_column.embedding_column(words(), DIM)])
    loss = tf.reduce_sum(layer(sentences()))
    with pytest.raises(AscpipeError):
        keras_optimizers().SGD(0.1).get_updates(loss, layer.trainable_weights)


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_program_reaches_the_attributes_that_are_replaced_for_it(name, tmp_path, request):
    run = PROGRAMS[name]
    others = run.__code__.co_varnames[1:run.__code__.co_argcount]
    given = [str(tmp_path), *map(request.getfixturevalue, others)]
    v1.reset_default_graph()
    with recorded() as reached:
        try:
            run(*given)
        finally:
            asc.shutdown()
            v1.summary.FileWriterCache.clear()
    assert not {patch.path for patch in REACHES[name]} - {patch.path for patch in reached}


def test_there_is_a_program_for_each_attribute():
    assert {patch.path for patch in patches.PATCHES} == {patch.path for paths in REACHES.values() for patch in paths}
