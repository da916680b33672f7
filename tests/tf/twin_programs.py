"""The same program over tables and over variables of TensorFlow, to be changed in the way that a test is about.

A twin either trains with the losses of plain TensorFlow, or is refused by an error that names the table before any
update; a program that trains with other losses is a silent fault, whatever it does.
"""
import contextlib
import warnings
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import AscpipeError
from tests.support.contrib import contrib
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
        of_users, of_items: numbers that a loss is made of, which depend on one table each.
        loss: of the batch.
        is_ours: whether rows are those of tables.
        tables: by name, the table or the variable.
    """

    def __init__(self, batch, rows, tables, *, is_ours):
        self.batch, self.rows, self.tables, self.is_ours = batch, rows, tables, is_ours
        # A resource variable is read once in a step, whatever is updated meanwhile.
        with v1.variable_scope("dense", use_resource=True):
            weights = v1.get_variable("weights", [sum(DIMS.values())], initializer=v1.constant_initializer(0.2))
        users, items = weights[:DIMS["user"]], weights[DIMS["user"]:]
        self.of_users = tf.reduce_sum(tf.reduce_sum(rows["user"], 1) * users, 1)
        self.of_items = tf.reduce_sum(rows["item"] * items, 1)
        self.loss = self.loss_of(self.of_users + self.of_items)

    def loss_of(self, numbers):
        """The loss of a number for each row of the batch."""
        return tf.reduce_mean(tf.square(numbers - self.batch["label"]))

    def everything(self):
        """Trainable variables, and what stands for the tables."""
        return [*v1.trainable_variables(), *self.variables()] if self.is_ours else v1.trainable_variables()

    def optimizer(self, kind):
        return OPTIMIZERS[kind][0 if self.is_ours else 1]()

    def variables(self):
        """What stands for the tables in pairs of gradients: variables, or the rows of the batch."""
        return asc.table_variables() if self.is_ours else list(self.tables.values())


def source(seed=1):
    """Arrays of ids, which repeat within a batch, and labels."""
    random = np.random.RandomState(seed)

    def ids(keys, count):
        return random.randint(0, keys, STEPS * BATCH * count)

    return {"user": ids(KEYS["user"], 2).reshape(-1, 2), "item": ids(KEYS["item"], 1),
            "label": random.rand(STEPS * BATCH).astype(np.float32)}


#: How a program keeps the rows of a table as they are: arguments of the lookup, and what is done with the rows.
FREEZES = {
    "trainable=False": ({"trainable": False}, tf.identity),
    "training=False": ({"training": False, "default_value": "initial"}, tf.identity),
    "stop_gradient": ({}, tf.stop_gradient),
}


def ours(train, tier="device", mode="tensors", folder=".", frozen=None):
    """The outcome of the program over tables.

    Args:
        train: ``train(model)`` gives the op, or ops, that train.
        frozen: by name of a table, which of ``FREEZES`` keeps its rows.
    """
    frozen = frozen or {}
    try:
        with ascpipe(use_dynamic_expansion=tier == "expansion"):
            tables = {}
            for name, sizes in TIERS[tier].items():
                disk = {"ssd_data_path": [str(folder)]} if tier == "disk" else {}
                tables[name] = asc.create_table(name, DIMS[name], **sizes, **disk,
                                                initializer=v1.constant_initializer(FIRST[name]))
            data = tf.data.Dataset.from_tensor_slices(source()).batch(BATCH)
            specs = {name: asc.FeatureSpec(name) for name in tables}
            if mode == "features":
                data = data.map(asc.insert_function(list(specs.values())))
            iterator = v1.data.make_initializable_iterator(data.prefetch(4))
            batch = iterator.get_next()
            rows = {}
            for name, table in tables.items():
                given, after = FREEZES.get(frozen.get(name), ({}, tf.identity))
                if mode == "features":
                    rows[name] = after(asc.sparse_lookup(table, specs[name], batch=batch, **given))
                else:
                    rows[name] = after(asc.sparse_lookup(table, batch[name], **given))
            model = Model(batch, rows, tables, is_ours=True)
            op = train(model)
            asc.start()
            return Outcome(_losses(model, iterator, op))
    except AscpipeError as error:
        return Outcome(None, error)


def refused(compositions, check):
    """Return how many programs were refused.

    Args:
        compositions: tuples that describe a program each.
        check: called with the elements of each. It raises if the program has neither an error nor the results of
            TensorFlow, and returns a true value for an error.

    Raises:
        AssertionError: names the composition whose check raised.
    """
    count = 0
    for composition in compositions:
        try:
            count += bool(check(*composition))
        except Exception as error:
            raise AssertionError("{}: {}".format(_named(composition), error)) from error
    return count


def _named(part):
    """The names of functions in the place of the functions."""
    if isinstance(part, (list, tuple)):
        return [_named(each) for each in part]
    return getattr(part, "__name__", part)


@contextlib.contextmanager
def ascpipe(**given):
    """A graph of its own between ``init`` and ``shutdown``."""
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        asc.init(**given)
        try:
            yield
        finally:
            asc.shutdown()


def plain(train, frozen=()):
    """The outcome of the program over variables; the rows of some are ``frozen``."""
    with tf.Graph().as_default():
        iterator = v1.data.make_initializable_iterator(
            tf.data.Dataset.from_tensor_slices(source()).batch(BATCH))
        batch = iterator.get_next()
        tables = {name: v1.get_variable(name, [KEYS[name], DIMS[name]], use_resource=False,
                                        initializer=v1.constant_initializer(FIRST[name])) for name in KEYS}
        rows = {name: tf.nn.embedding_lookup(table, batch[name]) for name, table in tables.items()}
        rows.update({name: tf.stop_gradient(rows[name]) for name in frozen})
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
