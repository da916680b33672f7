"""The same program over tables and over variables of TensorFlow, to be changed in the way that a test is about.

A twin either trains with the losses of plain TensorFlow, or is refused by an error that names the table before any
update; a program that trains with other losses is a silent fault, whatever it does.
"""
import contextlib
import functools
import warnings
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import AscpipeError
from tests.tf import programs

v1 = tf.compat.v1
STEPS, BATCH, RATE = 10, 6, 0.05
KEYS = {"user": 40, "item": 30}
DIMS = {"user": 3, "item": 2}
FIRST = {"user": 1.0, "item": 0.25}
#: Sizes of a table: the device holds the ids of one batch where rows move.
TIERS = {
    "device": {"user": {"device_vocabulary_size": 50}, "item": {"device_vocabulary_size": 50}},
    "host": {"user": {"device_vocabulary_size": 13, "host_vocabulary_size": 60},
             "item": {"device_vocabulary_size": 7, "host_vocabulary_size": 60}},
    "disk": {"user": {"device_vocabulary_size": 13, "host_vocabulary_size": 14, "ssd_vocabulary_size": 60},
             "item": {"device_vocabulary_size": 7, "host_vocabulary_size": 8, "ssd_vocabulary_size": 60}},
    "expansion": {"user": {}, "item": {}},
}


def contrib(name):
    """A module of ``tensorflow.contrib``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return functools.reduce(getattr, name.split("."), tf.contrib)


#: By name: of ascpipe and of TensorFlow.
OPTIMIZERS = {
    "gradient_descent": (lambda: asc.optimizers.GradientDescent(RATE),
                         lambda: v1.train.GradientDescentOptimizer(RATE)),
    "adagrad": (lambda: asc.optimizers.Adagrad(RATE), lambda: v1.train.AdagradOptimizer(RATE)),
    "ftrl": (lambda: asc.optimizers.Ftrl(RATE, l2_regularization_strength=0.1),
             lambda: v1.train.FtrlOptimizer(RATE, l2_regularization_strength=0.1)),
    "lazy_adam": (lambda: asc.optimizers.LazyAdam(RATE), lambda: contrib("opt").LazyAdamOptimizer(RATE)),
}


class Outcome(NamedTuple):
    """Losses of the steps; or None, and the error that refused the program."""

    losses: list
    error: Exception = None


class Model:
    """What both twins give to ``train``.

    Attributes:
        batch: features.
        rows: by name of the table, what was looked up.
        loss: of the batch.
        is_ours: whether rows are those of tables.
        tables: by name, the table or the variable.
    """

    def __init__(self, batch, rows, tables, *, is_ours):
        self.batch, self.rows, self.tables, self.is_ours = batch, rows, tables, is_ours
        with v1.variable_scope("dense", use_resource=False):
            weights = v1.get_variable("weights", [sum(DIMS.values())], initializer=v1.constant_initializer(0.2))
        inputs = tf.concat([tf.reduce_sum(rows["user"], 1), rows["item"]], 1)
        self.loss = tf.reduce_mean(tf.square(tf.reduce_sum(inputs * weights, 1) - batch["label"]))

    def optimizer(self, kind):
        return OPTIMIZERS[kind][0 if self.is_ours else 1]()

    def variables(self):
        """What stands for the tables in pairs of gradients: variables, or the rows of the batch."""
        return asc.table_variables() if self.is_ours else list(self.tables.values())


def source(distinct, seed=1):
    """Arrays of ids and labels; ``distinct``: no id is twice in a batch."""
    random = np.random.RandomState(seed)

    def ids(keys, count):
        if distinct:
            return np.concatenate([random.permutation(keys)[:BATCH * count] for _ in range(STEPS)])
        return random.randint(0, keys, STEPS * BATCH * count)

    return {"user": ids(KEYS["user"], 2).reshape(-1, 2), "item": ids(KEYS["item"], 1),
            "label": random.rand(STEPS * BATCH).astype(np.float32)}


def ours(train, tier="device", mode="tensors", distinct=False, folder=".", look_up=None):
    """The outcome of the program over tables; ``train(model)`` gives the op, or ops, that train."""
    try:
        with programs.ascpipe(use_dynamic_expansion=tier == "expansion"):
            tables = {}
            for name, sizes in TIERS[tier].items():
                disk = {"ssd_data_path": [str(folder)]} if tier == "disk" else {}
                tables[name] = asc.create_table(name, DIMS[name], **sizes, **disk,
                                                initializer=v1.constant_initializer(FIRST[name]))
            data = tf.data.Dataset.from_tensor_slices(source(distinct)).batch(BATCH)
            specs = {name: asc.FeatureSpec(name) for name in tables}
            if mode == "features":
                data = data.map(asc.insert_function(list(specs.values())))
            iterator = v1.data.make_initializable_iterator(data.prefetch(4))
            batch = iterator.get_next()
            rows = {name: (look_up or asc.sparse_lookup)(table, *(
                [specs[name]] if mode == "features" else [batch[name]]), **(
                    {"batch": batch} if mode == "features" else {})) for name, table in tables.items()}
            model = Model(batch, rows, tables, is_ours=True)
            op = train(model)
            asc.start()
            return Outcome(_losses(model, iterator, op))
    except AscpipeError as error:
        return Outcome(None, error)


def plain(train, distinct=False):
    """The outcome of the program over variables."""
    with tf.Graph().as_default():
        iterator = v1.data.make_initializable_iterator(
            tf.data.Dataset.from_tensor_slices(source(distinct)).batch(BATCH))
        batch = iterator.get_next()
        tables = {name: v1.get_variable(name, [KEYS[name], DIMS[name]], use_resource=False,
                                        initializer=v1.constant_initializer(FIRST[name])) for name in KEYS}
        rows = {name: tf.nn.embedding_lookup(table, batch[name]) for name, table in tables.items()}
        model = Model(batch, rows, tables, is_ours=False)
        return Outcome(_losses(model, iterator, train(model)))


def _losses(model, iterator, op):
    with programs.session() as run:
        run.run([iterator.initializer, v1.global_variables_initializer(), v1.local_variables_initializer()])
        return [float(run.run([model.loss, op])[0]) for _ in range(STEPS)]


def require_equal_or_refused(found, expected, names=("user", "item")):
    """The rule; whether the program was refused."""
    if found.error is not None:
        assert found.error.code in ("E251", "E252", "E253"), found.error
        assert any(repr(name) in str(found.error) for name in names), found.error
        return True
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-5)
    return False


@contextlib.contextmanager
def quiet():
    """Without TensorFlow's warning of gradients that become dense."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")
        yield
