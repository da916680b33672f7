"""What a first-time user does wrong is said in the words that were typed, with the nearest name that there is."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.util.initialize import init, terminate_config_initializer
from tests.tf import programs

ZEROS = tf.compat.v1.zeros_initializer()
DATA = {"user_ids": np.arange(12).reshape(6, 2), "label": np.ones(6, np.float32)}


def dataset(*specs):
    return tf.data.Dataset.from_tensor_slices(DATA).batch(2).map(get_asc_insert_func(list(specs)))


# ---- directories that are not there -----------------------------------------------------------------------

@pytest.mark.parametrize("is_file, advice", [(False, "Create the directory"), (True, "Pass another directory")])
def test_a_directory_for_rows_that_cannot_be_used_is_named_with_what_to_do(tmp_path, is_file, advice):
    path = str(tmp_path / "rows")
    if is_file:
        (tmp_path / "rows").write_text("")
    with programs.ascpipe(), pytest.raises(ValueError) as raised:
        asc.create_table("user", 4, initializer=ZEROS, device_vocabulary_size=9, host_vocabulary_size=20,
                         ssd_vocabulary_size=100, ssd_data_path=path)
    said = str(raised.value)
    assert said.startswith("E268: Table 'user' cannot store rows in ssd_data_path {!r}: ".format(path))
    assert said.endswith(". " + advice), said


# ---- features that a batch has not ------------------------------------------------------------------------

def test_a_batch_without_the_feature_is_told_in_the_names_that_were_typed_with_the_nearest_key():
    with programs.ascpipe(), pytest.raises(ValueError) as raised:
        dataset(FeatureSpec("user_id", table_name="user_table"))
    said = str(raised.value)
    assert "FeatureSpec 'user_id': the batch has no 'user_id', nor 'user_table'" in said
    assert "the keys 'label', 'user_ids'; did you mean user_ids? Pass it as index_key" in said
    assert "user_id_" not in said


def test_a_lookup_in_a_batch_without_the_feature_says_the_same():
    with programs.ascpipe():
        there, missing = FeatureSpec("user_ids", table_name="t"), FeatureSpec("user_idz", table_name="t")
        batch = tf.compat.v1.data.make_initializable_iterator(dataset(there, missing)).get_next()
        table = create_table(tf.int64, 2, "t", ZEROS, device_vocabulary_size=10)
        with pytest.raises(KeyError) as raised:
            sparse_lookup(table, missing, batch=batch)
    assert "the batch has no 'user_idz', nor 't'" in str(raised.value)
    assert "did you mean user_ids?" in str(raised.value) and "read_emb_key" not in str(raised.value)


def test_where_no_key_is_near_none_is_suggested():
    with programs.ascpipe(), pytest.raises(ValueError) as raised:
        dataset(FeatureSpec("colour"))
    assert "the batch has no 'colour'" in str(raised.value) and "did you mean" not in str(raised.value)


# ---- Keras ------------------------------------------------------------------------------------------------

REFUSED = "an input of a Keras model. fit, evaluate and predict of Keras are not supported"


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.each_value
def test_a_lookup_in_a_layer_of_a_keras_model_says_that_fit_is_not_supported(tensors, cast):
    with programs.ascpipe():
        spec = FeatureSpec("user_ids", table_name="t")
        dataset(spec)
        table = create_table(tf.int64, 2, "t", ZEROS, device_vocabulary_size=10)

        def look(ids):
            if tensors:
                return sparse_lookup(table, ids, modify_graph=True)
            return sparse_lookup(table, spec, batch={"user_ids": ids})

        ids = tf.keras.Input([2], dtype=tf.int64)
        with pytest.raises(ValueError, match=REFUSED):
            tf.keras.layers.Lambda(look)(tf.cast(ids, tf.int32) if cast else ids)


@pytest.mark.timeout_s(120)
@pytest.mark.parametrize("of_arrays", [False, True])
def test_a_keras_model_that_is_a_class_is_told_the_same_at_its_lookup(of_arrays):
    with programs.ascpipe():
        spec = asc.FeatureSpec("user_ids", table_name="t")
        table = asc.create_table("t", 2, initializer=ZEROS, device_vocabulary_size=10)

        class Model(tf.keras.Model):
            def call(self, batch):
                if of_arrays:
                    return asc.sparse_lookup(table, tf.cast(batch, tf.int64))
                return asc.sparse_lookup(table, spec, batch=batch)

        model = Model()
        model.compile("sgd", "mse")
        with pytest.raises(ValueError, match=REFUSED):
            if of_arrays:
                model.fit(DATA["user_ids"], np.ones([6, 2, 2]), verbose=0)
            else:
                model.fit(dataset(spec).map(lambda batch: (batch, batch["label"])), steps_per_epoch=1, verbose=0)


@pytest.mark.parametrize("of_tensor", [False, True])
def test_a_keras_model_over_rows_is_told_to_be_called_as_a_function(of_tensor):
    with programs.ascpipe():
        spec = asc.FeatureSpec("user_ids", table_name="t")
        data = dataset(spec) if not of_tensor else tf.data.Dataset.from_tensor_slices(DATA).batch(2)
        batch = tf.compat.v1.data.make_initializable_iterator(data).get_next()
        table = asc.create_table("t", 2, initializer=ZEROS, device_vocabulary_size=10)
        given = tf.keras.Input(tensor=asc.sparse_lookup(table, batch["user_ids"]) if of_tensor else
                               asc.sparse_lookup(table, spec, batch=batch))
        model = tf.keras.Model(given, tf.keras.layers.Dense(1)(given))
        model.compile("sgd", "mse")
        with pytest.raises(ValueError, match="E267: Rows of tables? 't' are the input of a Keras model.*as functions "
                           "of the rows"):
            model.predict(None, steps=1)


def test_layers_and_optimizers_of_keras_are_functions_in_a_session_program():
    with tf.Graph().as_default(), asc.pipeline():
        spec = asc.FeatureSpec("user_ids", table_name="t")
        data = tf.data.Dataset.from_tensor_slices(DATA).batch(2).map(asc.insert_function(spec)).prefetch(2)
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        batch = iterator.get_next()
        table = asc.create_table("t", 2, initializer=tf.keras.initializers.Constant(0.5), device_vocabulary_size=20)

        class Sum(tf.keras.layers.Layer):
            @tf.autograph.experimental.do_not_convert  # it takes long
            def call(self, batch):
                return tf.reduce_sum(asc.sparse_lookup(table, spec, batch=batch), 1)

        logits = tf.keras.layers.Dense(1)(Sum()(batch))
        loss = tf.reduce_mean(tf.square(tf.squeeze(logits, 1) - batch["label"]))
        train = asc.optimizers.GradientDescent(0.1).minimize(loss, var_list=asc.table_variables())
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            assert np.isfinite(run.run([loss, train])[0])
            assert table.size() == 4


def test_a_placeholder_outside_of_keras_is_not_blamed_on_it():
    with programs.ascpipe():
        table = create_table(tf.int64, 2, "t", ZEROS, device_vocabulary_size=10)
        sparse_lookup(table, tf.compat.v1.placeholder(tf.int64, [None]), modify_graph=True)  # refused when it is moved


# ---- init, and tables without a size ----------------------------------------------------------------------

def test_init_of_rec_sdk_ignores_unknown_arguments_and_names_the_nearest(caplog):
    with tf.Graph().as_default():
        init(use_dynamik=False, flag_of_another_version=1)
        terminate_config_initializer()
    (said,) = [record.getMessage() for record in caplog.records if "unknown" in record.getMessage()]
    assert said == ("init(): unknown arguments are ignored: flag_of_another_version, use_dynamik "
                    "(did you mean use_dynamic?)")


def test_a_table_of_rec_sdk_without_a_size_is_warned_of_at_once_and_goes_on(caplog):
    with programs.ascpipe():
        table = create_table(tf.int64, 8, "t", ZEROS)
        assert table.table_name == "t"
    assert "Table 't' holds only one key at a time" in caplog.text


def test_a_table_that_is_served_needs_no_size(caplog):
    with programs.ascpipe(), asc.serving_tables("none/model"):
        assert asc.create_table("u", 8, initializer=ZEROS).emb_size == 8
    assert "room" not in caplog.text


def test_a_table_that_grows_needs_no_size_and_no_warning(caplog):
    with programs.ascpipe(use_dynamic_expansion=True):
        create_table(tf.int64, 8, "t", ZEROS)
        asc.create_table("u", 8, initializer=ZEROS)
    assert "room" not in caplog.text
