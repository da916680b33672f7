"""What no table can serve of programs with feature columns, and their ends: errors that name the way out."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import ColumnError, TableUseError
from tests.tf import column_programs as p
from tests.tf import columns, programs
from tests.tf.column_programs import layer, words

fc = tf.feature_column
v1 = tf.compat.v1
pytestmark = [
    pytest.mark.timeout_s(120), pytest.mark.filterwarnings("ignore:distutils Version classes"),
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")]


@pytest.fixture
def on_device():
    with tf.Graph().as_default(), columns.on("device"):
        yield


def test_a_lookup_in_training_that_no_optimizer_updates_is_an_error_at_the_start(on_device):
    features, iterator = p.batch()
    with v1.variable_scope("other"):
        bias = v1.get_variable("bias", [], initializer=v1.zeros_initializer())
    loss = p.loss_of(layer(features) + bias, features["label"])
    v1.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[bias])
    with pytest.raises(ColumnError, match="words_embedding.*no optimizer updates it.*var_list with this one"):
        asc.start()
        programs.session().run(iterator.initializer)


@pytest.mark.parametrize("change", [
    lambda gradient, variable: gradient + 0.1 * variable,
    lambda gradient, variable: tf.add_n([tf.convert_to_tensor(gradient), tf.ones_like(variable)]),
    lambda gradient, variable: v1.Variable(tf.zeros(variable.shape), trainable=False, use_resource=False).assign_add(
        tf.convert_to_tensor(gradient))])
def test_an_op_on_a_dense_gradient_and_the_variable_is_refused_by_the_name_of_the_variable(change, on_device):
    features, _ = p.batch()
    optimizer = p.gradient_descent()
    pairs = optimizer.compute_gradients(p.loss_of(layer(features), features["label"]))
    with pytest.raises(TableUseError, match="words_embedding/embedding_weights' is not a TensorFlow variable.*dense"):
        optimizer.apply_gradients([(change(*pair), pair[1]) for pair in pairs])


def test_rows_that_are_read_from_the_variable_are_refused_with_the_cure(on_device):
    features, iterator = p.batch()
    optimizer = p.gradient_descent()
    pairs = optimizer.compute_gradients(p.loss_of(layer(features), features["label"]))
    ((gradient, variable),) = pairs
    values = gradient.values + 0.1 * tf.gather(variable, gradient.indices)
    optimizer.apply_gradients([(tf.IndexedSlices(values, gradient.indices, gradient.dense_shape), variable)])
    with pytest.raises(TableUseError, match=r"rows are in a table.*add factor \* tf\.nn\.l2_loss\(rows\) to the loss"):
        programs.session().run(iterator.initializer)


def test_gradients_of_a_variable_and_of_its_table_are_refused_together(on_device):
    features, _ = p.batch()
    loss = p.loss_of(layer(features), features["label"])
    both = [*v1.trainable_variables(), *asc.table_variables()]
    with pytest.raises(TableUseError, match="words_embedding.*would be trained twice"):
        p.gradient_descent().apply_gradients(zip(tf.gradients(loss, both), both))


def test_a_dense_gradient_of_a_column_is_refused_by_the_name_of_its_variable(on_device):
    features, _ = p.batch()
    optimizer = p.gradient_descent()
    pairs = optimizer.compute_gradients(p.loss_of(layer(features), features["label"]))
    with pytest.raises(TableUseError, match="words_embedding/embedding_weights' is not a TensorFlow variable.*dense"):
        optimizer.apply_gradients([(3 * tf.convert_to_tensor(gradient), variable) for gradient, variable in pairs])


def with_bias(features):
    return layer(features) + v1.get_variable("bias", [], initializer=v1.zeros_initializer())


@pytest.mark.parametrize("start", [asc.start, lambda: None], ids=["start()", ""])
@pytest.mark.parametrize("update", [
    lambda bias, gradient: p.gradient_descent().apply_gradients([(gradient, bias)]),
    lambda bias, gradient: bias.assign_sub(0.1 * gradient)])
@pytest.mark.each_value
def test_an_update_beside_columns_that_are_not_trained_is_an_error_at_the_start(update, start, on_device):
    features, iterator = p.batch()
    loss = p.loss_of(with_bias(features), features["label"])
    (bias,) = v1.trainable_variables("bias")
    update(bias, *tf.gradients(loss, bias))
    with pytest.raises(ColumnError, match=r"words_embedding.*no optimizer updates it.*a var_list with this one"):
        start()
        programs.session().run(iterator.initializer)


@pytest.mark.parametrize("dtype", ["numpy", "pandas"])
def test_functions_that_feed_queues_are_refused(dtype, tmp_path):
    given = {"user": np.arange(32), "label": np.ones(32, np.float32)}
    if dtype == "numpy":
        read = v1.estimator.inputs.numpy_input_fn({"user": given["user"]}, given["label"], 8, shuffle=False)
    else:
        pandas = pytest.importorskip("pandas")
        read = v1.estimator.inputs.pandas_input_fn(
            pandas.DataFrame({"user": given["user"]}), pandas.Series(given["label"]), 8, shuffle=False)
    column = fc.categorical_column_with_identity("user", 300)
    with columns.on("device"), pytest.raises(ValueError, match=r"tf\.data\.Dataset"):
        v1.estimator.LinearRegressor([column], str(tmp_path)).train(read, steps=2)


def test_a_placeholder_is_refused(on_device):
    ids = v1.placeholder(tf.int64, [p.BATCH])
    column = p.embedding(fc.categorical_column_with_identity("user", 300))
    loss = p.loss_of(v1.feature_column.input_layer({"user": ids}, [column]), tf.ones([p.BATCH]))
    with pytest.raises(ValueError, match=r"tf\.data\.Dataset"):
        p.gradient_descent().minimize(loss)
        asc.start()


def keras_model():
    ids = tf.keras.Input([1], dtype=tf.int64, name="user")
    column = p.embedding(fc.categorical_column_with_identity("user", 300))
    return tf.keras.Model(ids, tf.keras.layers.Dense(1)(v1.keras.layers.DenseFeatures([column])({"user": ids})))


def sequential():
    column = p.embedding(fc.categorical_column_with_identity("user", 300))
    return tf.keras.Sequential([v1.keras.layers.DenseFeatures([column]), tf.keras.layers.Dense(1)])


@pytest.mark.parametrize("make", [keras_model, sequential])
def test_fit_of_keras_is_refused(make, on_device):
    data = tf.data.Dataset.from_tensor_slices(({"user": np.arange(32)[:, None]}, np.ones(32, np.float32))).batch(8)
    with pytest.raises((ColumnError, ValueError), match="(?i)keras"):
        model = make()
        model.compile("sgd", "mse")
        model.fit(data, epochs=1)


def over_rows(rows, label, optimizer="sgd"):
    """A model of Keras whose input are looked-up rows."""
    given = tf.keras.Input(tensor=rows)
    model = tf.keras.Model(given, tf.keras.layers.Dense(1)(given))
    model.compile(optimizer, "mse", target_tensors=[label[:, tf.newaxis]])
    return model


@pytest.mark.parametrize("call", [
    lambda model: model.fit(steps_per_epoch=1, verbose=0), lambda model: model.train_on_batch(None),
    lambda model: model.evaluate(steps=1, verbose=0), lambda model: model.predict(None, steps=1)])
@pytest.mark.parametrize("look_up", [layer, lambda features: v1.keras.layers.DenseFeatures([p.embedding(words())])(
    features)])
@pytest.mark.each_value
def test_a_model_of_keras_over_the_rows_of_a_column_is_refused(look_up, call, on_device):
    features, iterator = p.batch()
    rows = look_up(features)
    trained = p.gradient_descent().minimize(p.loss_of(rows, features["label"]))
    model = over_rows(rows, features["label"])
    with pytest.raises(ColumnError, match=r"words_embedding.*input of a Keras model.*loop of session\.run"):
        call(model)
    with programs.session() as session:
        session.run([iterator.initializer, v1.global_variables_initializer()])
        session.run(trained)
        assert session.run(model.output).shape == (p.BATCH, 1)  # as functions they work
        with pytest.raises(ColumnError, match="rows of its table are the input of a Keras model"):
            call(model)


def test_a_model_of_keras_over_rows_is_refused_before_its_optimizer_is_blamed(on_device):
    features, _ = p.batch()
    model = over_rows(layer(features), features["label"], p.gradient_descent())
    with pytest.raises(ColumnError, match="rows of its table are the input of a Keras model"):
        model.fit(steps_per_epoch=1, verbose=0)


def test_a_model_of_keras_beside_columns_fits_what_is_no_row(on_device):
    features, _ = p.batch()
    layer(features)
    dense = tf.random.uniform([p.BATCH, 3])
    assert np.isfinite(over_rows(dense, dense[:, 0]).fit(steps_per_epoch=2, verbose=0).history["loss"][0])


def test_model_to_estimator_is_refused(tmp_path):
    with tf.Graph().as_default(), columns.on("device"), pytest.raises((ColumnError, ValueError), match="(?i)keras"):
        model = keras_model()
        model.compile(v1.train.GradientDescentOptimizer(0.1), "mse")
        estimator = tf.keras.estimator.model_to_estimator(model, model_dir=str(tmp_path))
        estimator.train(lambda: tf.data.Dataset.from_tensors(
            ({"user": np.arange(8)[:, None]}, np.ones(8, np.float32))), steps=1)


def test_rows_of_a_checkpoint_for_a_column_are_left_to_tensorflow_or_refused(on_device, tmp_path, capfd):
    given = {"ckpt_to_load_from": str(tmp_path), "tensor_name_in_ckpt": "rows"}
    features, _ = p.batch()
    with pytest.raises(ValueError, match="(?i)checkpoint"):
        v1.feature_column.input_layer(features, [p.embedding(words(), **given)])


def test_a_function_as_initializer_is_left_to_tensorflow_or_refused(on_device, capfd):
    given = {"initializer": lambda shape, dtype=None, partition_info=None: tf.ones(shape, dtype)}
    features, iterator = p.batch()
    column = fc.embedding_column(words(), 4, **given)
    v1.feature_column.input_layer(features, [column])
    assert v1.trainable_variables()[0].shape == (500, 4)
    programs.session().run(iterator.initializer)
    assert "not an instance of an initializer class" in " ".join(capfd.readouterr().err.split())
    with pytest.raises(ColumnError, match="not an instance of an initializer class"):
        v1.feature_column.input_layer(features, [asc.feature_column.embedding_column(words(), 4, **given)])


def test_many_buckets_without_a_size_are_refused():
    with p.own():
        features, _ = p.batch()
        column = asc.feature_column.embedding_column(words(2 ** 63 - 1), 4)
        with pytest.raises(ColumnError, match="Pass device_vocabulary_size"):
            v1.feature_column.input_layer(features, [column])
    with tf.Graph().as_default(), columns.on("tensorflow"):
        asc.use_for_feature_columns()
        try:
            features, _ = p.batch()
            with pytest.raises(ColumnError, match="Pass device_vocabulary_size"):
                v1.feature_column.input_layer(features, [p.embedding(words(2 ** 63 - 1))])
        finally:
            asc.shutdown()


def read_words():
    return tf.data.Dataset.from_tensor_slices(({"words": [["a"], ["b"]] * 8}, [0, 1] * 8)).batch(4)


@pytest.mark.filterwarnings("ignore:inspect.getargspec")  # of AutoGraph
def test_an_estimator_of_tensorflow_2_is_refused_where_it_would_train_a_table(tmp_path, on_device):
    kinds = tf.compat.v2.estimator
    with pytest.raises(ColumnError, match=r"linear_model/words/weights.*Keras optimizer.*tf\.compat\.v1\.estimator"):
        kinds.LinearClassifier([words()], model_dir=str(tmp_path / "linear")).train(read_words)
    column = asc.feature_column.embedding_column(words(), 4)
    # AutoGraph makes another error of it, which has its text.
    with pytest.raises(Exception, match=r"E251.*words_embedding.*layers of TensorFlow 2.*tf\.compat\.v1\.estimator"):
        kinds.DNNClassifier([4], [column], model_dir=str(tmp_path / "ours")).train(read_words)
    plain = kinds.DNNClassifier([4], [p.embedding(words())], model_dir=str(tmp_path / "plain")).train(read_words)
    weights = "dnn/input_from_feature_columns/input_layer/words_embedding/embedding_weights"
    assert plain.get_variable_value(weights).shape == (500, 4)


def test_a_linear_optimizer_of_dual_coordinates_is_refused(tmp_path):
    with columns.on("device"), pytest.raises(ColumnError, match="Use FtrlOptimizer"):
        v1.estimator.LinearClassifier([words()], str(tmp_path), optimizer=v1.estimator.experimental.LinearSDCA(
            "hour")).train(lambda: tf.data.Dataset.from_tensors(
                ({"words": [["a"], ["b"]], "hour": ["1", "2"]}, [[1], [0]])), steps=1)


@pytest.mark.parametrize("make", [
    lambda: asc.feature_column.embedding_column(words(), 0), lambda: asc.feature_column.embedding_column("words", 4),
    lambda: asc.feature_column.embedding_column(words(), 4, "max"),
    lambda: asc.feature_column.embedding_column(words(), 4, max_norm=0),
    lambda: asc.feature_column.embedding_column(words(), 4, device_vocabulary_size=0),
    lambda: asc.feature_column.embedding_column(words(), 4, initializer=3),
    lambda: asc.feature_column.shared_embedding_columns(words(), 4),
    lambda: asc.feature_column.shared_embedding_columns([words(), words(501)], 4),
    lambda: asc.feature_column.linear_weights(p.embedding(words())),
    lambda: asc.feature_column.categorical_column_with_int64(""),
    lambda: asc.use_for_feature_columns(min_buckets=0), lambda: asc.use_for_feature_columns(host_vocabulary_size=-1),
    lambda: asc.use_for_feature_columns(device_vocabulary_size="many"),
    lambda: asc.Optimizer(dense="Adagrad", sparse=p.gradient_descent()),
    lambda: asc.Optimizer(dense=p.gradient_descent(), sparse="Adagrad")])
def test_a_wrong_argument_is_refused(make):
    with pytest.raises(ValueError):
        make()


def test_columns_are_those_of_tensorflow_again_after_the_end():
    expected = p.trained("tensorflow", layer)
    for _ in range(2):
        p.require_same(p.trained("device", layer), expected)
        with tf.Graph().as_default(), columns.on("tensorflow"):
            p.require_same(p.run(layer), expected)
            assert v1.trainable_variables()[0].shape == [500, p.DIM]


def linear(features):
    return v1.feature_column.linear_model(features, [words()])


def test_a_linear_column_that_had_a_table_is_one_of_tensorflow_after_the_end():
    expected = p.trained("tensorflow", linear)
    with p.own():
        asc.feature_column.linear_weights(words(), device_vocabulary_size=100)
        p.require_same(p.run(linear, start=True), expected)
    p.require_same(p.trained("tensorflow", linear), expected)


@pytest.mark.parametrize("make", [v1.keras.layers.DenseFeatures, lambda wanted: lambda features:
                                  v1.feature_column.input_layer(features, wanted)])
def test_a_column_of_ascpipe_wants_init(make):
    with tf.Graph().as_default(), pytest.raises(OSError, match=r"init\(\)"):
        make([asc.feature_column.embedding_column(words(), p.DIM)])(p.batch()[0])


def test_a_shared_column_of_ascpipe_wants_init():
    wanted = asc.feature_column.shared_embedding_columns([words(), words(500, "hour")], p.DIM)
    with tf.Graph().as_default(), pytest.raises(OSError, match=r"init\(\)"):
        v1.feature_column.input_layer(p.batch()[0], wanted)


def test_a_second_choice_of_columns_takes_the_place_of_the_first_before_a_graph_is_built(on_device, capfd):
    asc.use_for_feature_columns(min_buckets=501)
    p.run(layer)
    assert "500 buckets, below 501" in capfd.readouterr().err


@pytest.mark.parametrize("other", [
    p.as_input_layer(fc.embedding_column(words(), 6, initializer=p.constant())),
    p.as_input_layer(p.embedding(words()), p.embedding(fc.categorical_column_with_identity("user", 300)))])
def test_a_session_with_other_columns_of_the_same_names_is_refused(other, on_device):
    p.run(layer)
    with tf.Graph().as_default(), pytest.raises((ValueError, NotImplementedError), match=r"shutdown\(\) and asc"):
        p.run(other)


def test_a_choice_of_columns_after_a_pipeline_runs_is_refused(on_device):
    p.run(layer)
    with pytest.raises(OSError, match="before the first graph is built"):
        asc.use_for_feature_columns()


def test_a_program_without_large_columns_is_that_of_tensorflow(capfd):
    def build(features):
        return v1.feature_column.input_layer(features, [p.embedding(words(50))])

    p.require_same(p.trained("device", build), p.trained("tensorflow", build))
    said = " ".join(capfd.readouterr().err.split())
    assert "replaced by tables" not in said and "(50 buckets, below 100)" in said
