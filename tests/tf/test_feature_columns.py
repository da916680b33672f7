"""Feature columns in session programs, of each kind, beside TensorFlow: outputs and steps have the same bits."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import column_programs as p

fc = tf.feature_column
pytestmark = [
    pytest.mark.timeout_s(120), pytest.mark.filterwarnings("ignore:distutils Version classes"),
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")]


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "words"
    path.write_text("".join("word-{}\n".format(each) for each in range(120)))
    return str(path)


def words(number=500):
    return fc.categorical_column_with_hash_bucket("words", number)


def many_words():
    return ["word-{}".format(each) for each in range(8, 130)]


KINDS = {
    "hash of text": lambda _: p.embedding(words()),
    "hash of integers": lambda _: p.embedding(fc.categorical_column_with_hash_bucket("ids", 500, tf.int64)),
    "hash of a dense integer": lambda _: p.embedding(fc.categorical_column_with_hash_bucket("user", 500, tf.int64)),
    "identity with default": lambda _: p.embedding(fc.categorical_column_with_identity("ids", 500, 7)),
    "vocabulary list with buckets": lambda _: p.embedding(
        fc.categorical_column_with_vocabulary_list("words", many_words(), num_oov_buckets=9)),
    "vocabulary list with default": lambda _: p.embedding(
        fc.categorical_column_with_vocabulary_list("words", many_words(), default_value=3)),
    "vocabulary list without others": lambda _: p.embedding(
        fc.categorical_column_with_vocabulary_list("words", many_words())),
    "vocabulary of integers": lambda _: p.embedding(
        fc.categorical_column_with_vocabulary_list("ids", list(range(200)), tf.int64)),
    "vocabulary file": lambda path: p.embedding(
        fc.categorical_column_with_vocabulary_file("words", path, num_oov_buckets=3)),
    "crossed": lambda _: p.embedding(fc.crossed_column(["words", "hour"], 700)),
    "crossed with columns": lambda _: p.embedding(
        fc.crossed_column([fc.categorical_column_with_identity("user", 300), "hour"], 700, 5)),
    "bucketized": lambda _: p.embedding(fc.bucketized_column(
        fc.numeric_column("age"), [each / 150 for each in range(150)])),
    "max_norm": lambda _: p.embedding(words(), max_norm=0.4)}
INEXACT = {"max_norm": 2e-6, "weighted sqrtn": 2e-6}  #: TensorFlow's root of many numbers is not the exact one
for _combiner in ("sum", "mean", "sqrtn"):
    KINDS["hash in " + _combiner] = lambda _, combiner=_combiner: p.embedding(words(), combiner)
    KINDS["weighted " + _combiner] = lambda _, combiner=_combiner: p.embedding(
        fc.weighted_categorical_column(words(), "weights"), combiner)


@pytest.mark.parametrize("side", ["device", "host"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.each_value
def test_input_layer_trains_a_column_as_tensorflow_does(kind, side, vocabulary):
    def build(features):
        return tf.compat.v1.feature_column.input_layer(features, [KINDS[kind](vocabulary)])

    p.require_same(p.trained(side, build), p.trained("tensorflow", build), INEXACT.get(kind, 0))


@pytest.mark.parametrize("combiner", ["mean", "sqrtn"])
def test_a_bag_whose_weights_are_all_0_is_empty(combiner):
    given = p.texts()
    places, values, shape = given["weights"]
    given["weights"] = tf.compat.v1.SparseTensorValue(
        places, np.where(places[:, 0] % 3 == 0, np.float32(0), values), shape)

    def build(features):
        column = fc.weighted_categorical_column(words(), "weights")
        return tf.compat.v1.feature_column.input_layer(features, [p.embedding(column, combiner)])

    p.require_same(p.trained("device", build, given=given), p.trained("tensorflow", build, given=given),
                   INEXACT.get("weighted " + combiner, 0))


def dense_features(features, make=tf.compat.v1.keras.layers.DenseFeatures):
    return make([p.embedding(words()), p.embedding(fc.categorical_column_with_identity("user", 300))])(features)


def linear_model(features, combiner="sum"):
    weighted = fc.weighted_categorical_column(words(), "weights")
    user = fc.categorical_column_with_identity("user", 300)
    return tf.compat.v1.feature_column.linear_model(
        features, [weighted, user, fc.numeric_column("age"), fc.categorical_column_with_hash_bucket("hour", 20)],
        units=2, sparse_combiner=combiner)


def sequence(features):
    column = fc.sequence_categorical_column_with_hash_bucket("words", 500)
    rows, length = tf.keras.experimental.SequenceFeatures([p.embedding(column)])(features)
    return tf.concat([tf.reduce_sum(rows, axis=1), tf.cast(length, tf.float32)[:, None]], axis=1)


def shared(features):
    wanted = tf.compat.v1.feature_column.shared_embedding_columns(
        [words(), fc.categorical_column_with_hash_bucket("hour", 500)], p.DIM, initializer=p.constant())
    return tf.compat.v1.feature_column.input_layer(features, wanted)


def shared_of_tf2(features):
    wanted = tf.compat.v2.feature_column.shared_embeddings(
        [words(), fc.categorical_column_with_hash_bucket("hour", 500)], p.DIM, initializer=p.constant())
    return tf.compat.v1.keras.layers.DenseFeatures(wanted)(features)


PLACES = {"DenseFeatures": dense_features, "linear_model": linear_model, "SequenceFeatures": sequence,
          "DenseFeatures of compat.v1": lambda features: dense_features(
              features, tf.compat.v1.keras.layers.DenseFeatures),
          "linear_model, mean": lambda features: linear_model(features, "mean"),
          "shared_embedding_columns": shared, "shared_embeddings": shared_of_tf2}


@pytest.mark.parametrize("start", [False, True], ids=["", "start()"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.each_value
def test_what_makes_tensors_of_columns_trains_them_as_tensorflow_does(place, start, capfd):
    found = p.trained("device", PLACES[place], start=start)
    if not start:
        assert "ascpipe: variables replaced by tables:" in capfd.readouterr().err
    p.require_same(found, p.trained("tensorflow", PLACES[place]))


def test_columns_of_ascpipe_train_as_those_of_tensorflow_do():
    hashed, user = fc.categorical_column_with_hash_bucket("words", 500), "user"

    def theirs(features):
        return together(features, p.embedding(hashed), p.embedding(fc.categorical_column_with_identity(user, 300)),
                        tf.compat.v1.feature_column.shared_embedding_columns(
                            [hashed, other()], p.DIM, initializer=p.constant()), hashed)

    def ours(features):
        make = asc.feature_column
        sizes = {"device_vocabulary_size": 200, "host_vocabulary_size": 1000}
        return together(
            features, make.embedding_column(hashed, p.DIM, initializer=p.constant(), **sizes),
            make.embedding_column(make.categorical_column_with_int64(user), p.DIM, initializer=p.constant(), **sizes),
            make.shared_embedding_columns([hashed, other()], p.DIM, initializer=p.constant(), **sizes),
            make.linear_weights(hashed, **sizes))

    def other():
        return fc.categorical_column_with_hash_bucket("hour", 500)

    def together(features, first, second, both, linear):
        layer = tf.compat.v1.feature_column.input_layer(features, [first, second, *both])
        return tf.concat([layer, tf.compat.v1.feature_column.linear_model(features, [linear], units=2)], axis=1)

    with p.own():
        found = p.run(ours, start=True)
    p.require_same(found, p.trained("tensorflow", theirs))
