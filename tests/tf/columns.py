"""Programs of users over click data with feature columns, which run once as TensorFlow has them and once with the
columns on tables: the data, the columns, the canned Estimators, and what is noted of a run.

Dense initial values are the same in both: TensorFlow derives the seed of an op from the number of ops before it, and a
graph with tables has other ops. Rows begin as constants, which take no seed.
"""
import contextlib
import functools
import os
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import random_seed
from tensorflow.python.training import training_util

import ascpipe.tf as asc
from tests.support.programs import models_to_take_over
from tests.tf import programs
from tests.tf.estimators import Losses, event_files

ROWS, BATCH = 4096, 64
DIM, HIDDEN = 4, [8, 4]
MIN_BUCKETS = 100
#: field -> how many values it has; those of "user" do not fit the small device below
VALUES = {"user": 3000, "item": 2000, "site": 300, "city": 120, "phone": 30, "hour": 24}
TAGS, MOST_TAGS = 900, 5
BUCKETS = {"user": 50000, "item": 20000, "site": 1000, "phone": 50, "tags": 5000}
CITIES, HOURS = (["{}-{}".format(name, value) for value in range(VALUES[name])] for name in ("city", "hour"))
EMPTY_SHARE = 0.05  #: of rows without an item: its bag is empty

ONE_BATCH = 180  #: different tags in the batch with most of them; other fields have one value in each of 64 rows

#: What the program says before its Estimator, by where the rows lie; of "host" the device has room for one batch.
SIDES = {"tensorflow": None,
         "device": {"device_vocabulary_size": 60000, "host_vocabulary_size": 0},
         "host": {"device_vocabulary_size": ONE_BATCH, "host_vocabulary_size": 60000}}


@contextlib.contextmanager
def on(side):
    """A program begins and ends whose columns are TensorFlow's or those of ascpipe, as ``SIDES`` has it."""
    with mock.patch.object(random_seed, "get_seed", lambda op_seed: (1, 2 if op_seed is None else op_seed)):
        # An Estimator writes its graph as text, too, which nothing here reads, in a tenth of the time; and files that
        # need not outlive the machine need not wait for its disk.
        with mock.patch.object(training_util, "write_graph"), mock.patch.object(os, "fsync"), event_files():
            if SIDES[side] is None:
                yield
                return
            asc.use_for_feature_columns(min_buckets=MIN_BUCKETS, **SIDES[side])
            try:
                yield
            finally:
                asc.shutdown()


# ---- data

class Clicks:
    """Rows in memory.

    Attributes:
        features: fields as bytes objects[rows], ``age`` float32[rows], ``tags`` a SparseTensorValue of bytes with
            float32 ``weights`` at the same places.
        click: int64[rows], 0 or 1.
        price: float32[rows].
    """

    def __init__(self, rows, seed, values):
        random = np.random.RandomState(seed)
        signal = np.random.RandomState(7)  # what is learned is the same in all data
        odds = np.full(rows, -0.3)
        self.features = {}
        for name, most in values.items():
            drawn = (most * random.random_sample(rows) ** 1.5).astype(np.int64)
            odds += signal.normal(0, 0.5, 10 * most)[drawn]
            self.features[name] = np.array(["{}-{}".format(name, value).encode() for value in drawn], object)
        self.features["item"][random.random_sample(rows) < EMPTY_SHARE] = b""
        self.features["age"] = random.uniform(0, 1, rows).astype(np.float32)
        counts = random.randint(0, MOST_TAGS + 1, rows)
        places = np.array([(row, place) for row, count in enumerate(counts) for place in range(count)], np.int64)
        drawn = random.randint(0, TAGS, len(places))
        odds += np.bincount(places[:, 0], signal.normal(0, 0.3, TAGS)[drawn], rows)
        tags = np.array(["tag-{}".format(value).encode() for value in drawn], object)
        self.features["tags"] = tf.compat.v1.SparseTensorValue(places, tags, (rows, MOST_TAGS))
        self.features["weights"] = tf.compat.v1.SparseTensorValue(
            places, random.uniform(0.5, 2, len(places)).astype(np.float32), (rows, MOST_TAGS))
        self.click = (random.random_sample(rows) < 1 / (1 + np.exp(-odds))).astype(np.int64)
        self.price = odds.astype(np.float32)

    def input_fn(self, label="click", skip=0, steps=None):
        """What an Estimator reads: batches without end after the first ``skip`` ones, or ``steps`` of them."""
        def read():
            features = {name: tf.SparseTensor.from_value(value) if isinstance(value, tf.compat.v1.SparseTensorValue)
                        else value for name, value in self.features.items()}
            data = tf.data.Dataset.from_tensor_slices((features, getattr(self, label)))
            data = data.repeat().batch(BATCH, drop_remainder=True).skip(skip)
            return data.prefetch(2) if steps is None else data.take(steps).prefetch(2)

        return read

    def examples(self, first, last):
        """Serialised tf.train.Examples of some rows."""
        return [self._example(row).SerializeToString() for row in range(first, last)]

    def _example(self, row):
        example = tf.train.Example()
        for name, value in self.features.items():
            if isinstance(value, tf.compat.v1.SparseTensorValue):
                value = value.values[value.indices[:, 0] == row]
            elif value[row] == b"":  # nothing in a column of text; a list of values would have it as one
                value = value[:0]
            else:
                value = value[row:row + 1]
                if value.dtype == object and value[0] == b"":
                    continue  # what a dense tensor says by an empty text, an example says by nothing
            field = example.features.feature[name]
            (field.float_list if value.dtype == np.float32 else field.bytes_list).value.extend(value.tolist())
        return example


@functools.lru_cache(maxsize=None)
def trained_rows():
    """Clicks to train with."""
    return Clicks(ROWS, 1, VALUES)


@functools.lru_cache(maxsize=None)
def probes():
    """Clicks to evaluate and predict: every second user, item and site was in none that were trained."""
    return Clicks(4 * BATCH, 2, {**VALUES, "user": 6000, "item": 4000, "site": 600})


PROBE_STEPS = 4


# ---- columns

def categorical():
    """By name, what the fields are as ids; "phone" and "hour" have fewer than ``MIN_BUCKETS``."""
    hashed = {name: tf.feature_column.categorical_column_with_hash_bucket(name, buckets)
              for name, buckets in BUCKETS.items()}
    return {**hashed,
            "city": tf.feature_column.categorical_column_with_vocabulary_list("city", CITIES, num_oov_buckets=5),
            "hour": tf.feature_column.categorical_column_with_vocabulary_list("hour", HOURS)}


def embedding(column, number, combiner="mean"):
    """An embedding of ``DIM`` whose rows begin with a value of their column, by its number."""
    return tf.feature_column.embedding_column(
        column, DIM, combiner, initializer=tf.compat.v1.constant_initializer(0.03 * (number - 3)))


def embeddings():
    """One column per field; tags are summed by weights."""
    ids = categorical()
    plain = [embedding(ids[name], number) for number, name in enumerate(("user", "item", "site", "city", "phone"))]
    weighted = tf.feature_column.weighted_categorical_column(ids["tags"], "weights")
    return [*plain, embedding(weighted, 5, "sum"), embedding(ids["hour"], 6)]


def deep():
    """What a network reads: embeddings, tags in the mean, hours as they are, and a number."""
    ids = categorical()
    return [*embeddings()[:-1], embedding(ids["tags"], 7), tf.feature_column.indicator_column(ids["hour"]),
            tf.feature_column.numeric_column("age")]


def wide():
    """What a linear model reads."""
    age = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("age"), [0.2, 0.4, 0.6, 0.8])
    return [*categorical().values(), tf.feature_column.crossed_column(["site", "hour"], 10000), age]


def few_deep():
    """What a small network reads: text, tags in the mean, hours as they are, and a number."""
    ids = categorical()
    return [embedding(ids["user"], 0), embedding(ids["tags"], 7), tf.feature_column.indicator_column(ids["hour"]),
            tf.feature_column.numeric_column("age")]


def few_wide():
    """What a small linear model reads."""
    ids = categorical()
    return [ids["user"], ids["tags"], tf.feature_column.crossed_column(["site", "hour"], 10000)]


# ---- programs

def config(every=1000):
    """Of an Estimator that saves after ``every`` steps; one thread, so that a run can be repeated."""
    session = tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD)
    programs.once_by_each_optimizer(session)
    return tf.compat.v1.estimator.RunConfig(
        tf_random_seed=1, save_checkpoints_steps=every, save_summary_steps=None, log_step_count_steps=None,
        session_config=session)


CANNED = {
    "DNNClassifier": lambda **given: tf.compat.v1.estimator.DNNClassifier(HIDDEN, deep(), **given),
    "LinearClassifier": lambda **given: tf.compat.v1.estimator.LinearClassifier(wide(), **given),
    "DNNLinearCombinedClassifier": lambda **given: tf.compat.v1.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide(), dnn_feature_columns=deep(), dnn_hidden_units=HIDDEN, **given),
    # The columns of regressors are fewer, as a head does not know of them.
    "DNNRegressor": lambda **given: tf.compat.v1.estimator.DNNRegressor(
        HIDDEN, few_deep(), **given,
        optimizer=tf.compat.v1.train.AdagradOptimizer(0.02, initial_accumulator_value=0.3)),
    "LinearRegressor": lambda **given: tf.compat.v1.estimator.LinearRegressor(
        few_wide(), optimizer=tf.compat.v1.train.FtrlOptimizer(
            0.05, l1_regularization_strength=0.001, l2_regularization_strength=0.01), **given),
    "DNNLinearCombinedRegressor": lambda **given: tf.compat.v1.estimator.DNNLinearCombinedRegressor(
        linear_feature_columns=few_wide(), dnn_feature_columns=few_deep(), dnn_hidden_units=HIDDEN,
        dnn_optimizer="Adagrad",
        linear_optimizer=tf.compat.v1.train.GradientDescentOptimizer(0.001), **given)}


def deep_fm(**given):
    """DeepFM, written by hand with columns.

    Rows have 16 elements: from 8 on, the Adagrad of TensorFlow 2.15 rounds differently.
    """
    names = ("user", "item", "site", "tags")
    ids = [categorical()[name] for name in names]
    rows = [tf.feature_column.embedding_column(each, 16, initializer=tf.compat.v1.constant_initializer(0.05 * place))
            for place, each in enumerate(ids, 1)]
    return tf.compat.v1.estimator.Estimator(models_to_take_over.deep_fm(
        ids, rows, lambda: tf.compat.v1.train.AdagradOptimizer(0.02)), **given)


PROGRAMS = {**CANNED, "DeepFM": deep_fm}


class EachLoss(Losses):
    """Notes the loss of each step of an Estimator whose model it does not know."""

    def begin(self):
        self.loss = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]  # an Estimator adds it there


class Job:
    """An Estimator in a folder, and its program.

    Attributes:
        losses: of each step that was trained, also before it, in this folder.
    """

    def __init__(self, make, folder, losses=(), every=1000, **given):
        self.estimator = make(model_dir=str(folder), config=config(every), **given)
        self._label = "price" if "Regressor" in type(self.estimator).__name__ else "click"
        self._hook = EachLoss()
        self._hook.values.extend(losses)
        self.losses = self._hook.values

    def train(self, steps):
        self.estimator.train(self._training(), [self._hook], steps)
        return self

    def evaluate(self):
        return self.estimator.evaluate(self._probing())

    def predict(self):
        """By name, what is predicted of all probes: float arrays whose first axis is that of rows."""
        found = list(self.estimator.predict(self._probing()))
        return {name: np.stack([each[name] for each in found]) for name, value in found[0].items()
                if np.asarray(value).dtype == np.float32}

    def train_and_evaluate(self, steps, exporter=None):
        """By step, what evaluations said."""
        found = {}

        class Note(tf.compat.v1.estimator.Exporter):
            """Is told of each evaluation."""

            name = "note"

            def export(self, *, eval_result, **_kwargs):
                found[int(eval_result["global_step"])] = eval_result

        tf.compat.v1.estimator.train_and_evaluate(
            self.estimator, tf.compat.v1.estimator.TrainSpec(self._training(), steps, [self._hook]),
            tf.compat.v1.estimator.EvalSpec(self._probing(), steps=None, start_delay_secs=0, throttle_secs=0,
                                  exporters=[Note()] + ([exporter] if exporter else [])))
        return found

    def export(self, folder, **how):
        """Export for requests of tf.train.Examples; the directory of the SavedModel."""
        return tf.compat.as_text(asc.export_saved_model(self.estimator, str(folder), receiver(), **how))

    def _training(self):
        return trained_rows().input_fn(self._label, skip=len(self.losses))

    def _probing(self):
        return probes().input_fn(self._label, steps=PROBE_STEPS)


def receiver():
    """Of an export, as users make it."""
    spec = tf.feature_column.make_parse_example_spec([*deep(), *wide()])
    return tf.compat.v1.estimator.export.build_parsing_serving_input_receiver_fn(spec)


def served(path, signature="predict"):
    """What a SavedModel gives of all probes, as ``Job.predict`` has it."""
    with tf.compat.v1.Session(graph=tf.Graph(), config=config().session_config) as session:
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def
        (asked,), outputs = signatures[signature].inputs.values(), signatures[signature].outputs
        floats = {name: tensor.name for name, tensor in outputs.items() if tensor.dtype == tf.float32.as_datatype_enum}
        found = [session.run(floats, {asked.name: probes().examples(first, first + BATCH)})
                 for first in range(0, PROBE_STEPS * BATCH, BATCH)]
    return {name: np.concatenate([each[name] for each in found]) for name in floats}


# ---- comparisons

def difference(found, expected):
    """The largest relative one of two series of numbers that are as long as each other."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape and expected.size
    return float(np.max(np.abs(found - expected) / np.maximum(np.abs(expected), 1e-30)))


def require_close(found, expected, within):
    """Two dicts of arrays or numbers are the same within a bound, absolute below 1 and else relative.

    Raises:
        AssertionError: by name, how far they are from each other.
    """
    assert found.keys() == expected.keys()
    apart = {name: float(np.max(np.abs(found[name] - value) / np.maximum(np.abs(value), 1.0)))
             for name, value in expected.items()}
    assert max(apart.values()) <= within, apart


class Trained:
    """A run of a program, a ``train`` for each number of steps: its folder, losses, and what it gave of the probes.

    Args:
        probed: whether it is asked for the probes at all; that is half of the time.
    """

    def __init__(self, make, side, folder, *steps, probed=True):
        self.folder = folder
        with on(side):
            job = Job(make, folder)
            for number in steps:
                job.train(number)
            self.losses = job.losses
            if probed:
                self.evaluated, self.predicted = job.evaluate(), job.predict()
