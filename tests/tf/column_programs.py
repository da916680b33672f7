"""Session programs of users that read a batch by feature columns, for TensorFlow's columns and for those on tables."""
import contextlib

import numpy as np
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import columns, programs

BATCH, STEPS, DIM = 16, 5, 4


def texts(rows=BATCH * STEPS, seed=3):
    """By name, features of a few rows; sparse ones have empty bags, ids that occur again, and weights below 0."""
    random = np.random.RandomState(seed)
    counts = random.randint(0, 6, rows)
    counts[-1] = 0
    places = np.array([(row, place) for row, count in enumerate(counts) for place in range(count)], np.int64)
    ids = random.randint(0, 40, len(places))
    words = np.array(["word-{}".format(each).encode() for each in ids], object)

    def sparse(values):
        return tf.compat.v1.SparseTensorValue(places, values, (rows, 6))

    return {"words": sparse(words), "ids": sparse(ids - 3), "user": random.randint(0, 300, rows),
            "hour": np.array(["hour-{}".format(each).encode() for each in random.randint(0, 30, rows)], object),
            "weights": sparse(random.uniform(-0.5, 2, len(places)).astype(np.float32)),
            "age": random.uniform(0, 1, rows).astype(np.float32),
            "label": random.uniform(0, 1, rows).astype(np.float32)}


def batch(given=None, repeat=False):
    """The features of a batch, and the iterator that has to be initialised."""
    given = given or texts()
    data = tf.data.Dataset.from_tensor_slices({
        name: tf.SparseTensor.from_value(value) if isinstance(value, tf.compat.v1.SparseTensorValue) else value
        for name, value in given.items()})
    data = data.repeat() if repeat else data
    iterator = tf.compat.v1.data.make_initializable_iterator(data.batch(BATCH, drop_remainder=True).prefetch(2))
    return iterator.get_next(), iterator


def loss_of(outputs, label):
    """A loss that has a different gradient in each number of ``outputs`` [batch, ...]."""
    factors = 0.1 * tf.range(1, int(outputs.shape[-1]) + 1, dtype=tf.float32)
    return tf.reduce_sum(tf.square(tf.reduce_sum(tf.reshape(outputs * factors, [BATCH, -1]), axis=1) - label))


def constant(value=0.25):
    return tf.compat.v1.constant_initializer(value)


def embedding(column, combiner="mean", **given):
    """A column of TensorFlow, whose rows begin alike on both sides."""
    return tf.feature_column.embedding_column(column, DIM, combiner, initializer=constant(), **given)


def as_input_layer(*wanted):
    return lambda features: tf.compat.v1.feature_column.input_layer(features, list(wanted))


def gradient_descent():
    return tf.compat.v1.train.GradientDescentOptimizer(0.05)


def trained(side, build, optimizer=gradient_descent, steps=STEPS, start=False, given=None):
    """A list of (loss, outputs) of each step of a program; ``build(features)`` has the outputs, made in its graph."""
    with tf.Graph().as_default(), columns.on(side):
        tf.compat.v1.set_random_seed(1)
        return run(build, optimizer, steps, start, given)


def run(build, optimizer=gradient_descent, steps=STEPS, start=False, given=None):
    """As ``trained``, in the graph that there is."""
    features, iterator = batch(given, repeat=True)
    outputs = build(features)
    loss = loss_of(outputs, features["label"])
    train = optimizer().minimize(loss)
    if start:
        asc.start()
    with programs.session() as session:
        session.run([iterator.initializer, tf.compat.v1.global_variables_initializer(),
                     tf.compat.v1.tables_initializer()])
        return [session.run([loss, outputs, train])[:2] for _ in range(steps)]


def require_same(found, expected, within=0):
    """Two results of ``trained`` have the same bits, or are as near as ``within``, and something was trained."""
    assert len(found) == len(expected) > 1
    for step, (one, other) in enumerate(zip(found, expected)):
        for got, wanted in zip(one, other):
            np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), within, 0, err_msg="step {}".format(step))
    assert len({float(loss) for loss, _ in found}) == len(found)


@contextlib.contextmanager
def own(**given):
    """A program with ``init``, in a graph of its own, whose columns say their sizes."""
    with tf.Graph().as_default(), columns.on("tensorflow"):
        asc.init(**given)
        try:
            yield
        finally:
            asc.shutdown()


def words(number=500, key="words"):
    """A column of hashed texts."""
    return tf.feature_column.categorical_column_with_hash_bucket(key, number)


def layer(features):
    """The embeddings of the words of a batch, by ``input_layer``."""
    return tf.compat.v1.feature_column.input_layer(features, [embedding(words())])
