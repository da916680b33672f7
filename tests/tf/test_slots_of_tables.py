"""A slot variable is a table's because its optimizer has made it for the table, whatever it is called."""
import random
import re

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import OptimizerError
from ascpipe.tf.api import installing
from ascpipe.tf.graph.optimizer_slots import slot_variables
from tests.tf import programs, twin_programs
from tests.tf.twin_programs import DIMS, RATE, STEPS, TIERS, require_equal_or_refused

v1 = tf.compat.v1
ROWS = TIERS["host"]["user"]["device_vocabulary_size"]


def layer(model, scope, width=DIMS["user"]):
    """A layer in a variable scope, whose weights have the shape of the device rows of table ``user``."""
    with v1.variable_scope(scope, use_resource=False):
        inputs = tf.one_hot(model.batch["user"][:, 0] % ROWS, ROWS)
        return tf.reduce_sum(v1.layers.dense(inputs, width, use_bias=False,
                                             kernel_initializer=v1.constant_initializer(0.1)))


def with_layer(scope, kind="adagrad"):
    """A program that trains a layer by Adam, whose slots could be taken for those of the table."""
    def train(model):
        loss = model.loss + 0.001 * tf.square(layer(model, scope))
        dense = v1.train.AdamOptimizer(0.01)
        model.loss = loss
        pairs = dense.compute_gradients(loss, v1.trainable_variables(scope), gate_gradients=dense.GATE_GRAPH)
        with tf.control_dependencies([pairs[0][0]]):
            update = model.optimizer(kind).minimize(
                loss, var_list=[*v1.trainable_variables("dense"), *model.variables()])
        with tf.control_dependencies([update]):
            return dense.apply_gradients(pairs)
    return train


@pytest.mark.parametrize("scope", [
    "tower/user", *(pytest.param(scope, marks=pytest.mark.long) for scope in ("user", "user/tower", "item"))])
def test_a_layer_in_a_scope_with_the_name_of_a_table_keeps_its_slots(scope):
    found = twin_programs.ours(with_layer(scope), "host")
    expected = twin_programs.plain(with_layer("layer"))
    assert not require_equal_or_refused(found, expected)


def test_rows_and_slots_of_layer_and_table_are_restored_apart(tmp_path):
    """What an Estimator does: each graph makes its optimizers anew, and restores."""
    def losses(scope, parts):
        found = []
        for first, last in parts:
            with programs.ascpipe():
                random = np.random.RandomState(3)
                data = tf.data.Dataset.from_tensor_slices({
                    "user": random.randint(0, 40, (STEPS * 6, 2)), "item": random.randint(0, 30, STEPS * 6),
                    "label": random.rand(STEPS * 6).astype(np.float32)}).batch(6).skip(first)
                iterator = v1.data.make_initializable_iterator(data.prefetch(4))
                batch = iterator.get_next()
                tables = {name: asc.create_table(name, DIMS[name], initializer=v1.ones_initializer(), **sizes)
                          for name, sizes in TIERS["host"].items()}
                rows = {name: asc.sparse_lookup(table, batch[name]) for name, table in tables.items()}
                model = twin_programs.Model(batch, rows, tables, is_ours=True)
                train = with_layer(scope, "lazy_adam")(model)
                asc.start()
                saver = v1.train.Saver()
                path = str(tmp_path / scope / "model")
                with programs.session() as run:
                    run.run([iterator.initializer, v1.global_variables_initializer()])
                    if first:
                        saver.restore(run, "{}-{}".format(path, first))
                    found.extend(float(run.run([model.loss, train])[0]) for _ in range(first, last))
                    saver.save(run, path, last)
        return found

    undisturbed = losses("layer", [(0, STEPS)])
    assert losses("user", [(0, STEPS // 2), (STEPS // 2, STEPS)]) == undisturbed


def table(name="user"):
    return asc.create_table(name, 4, initializer=v1.zeros_initializer(), device_vocabulary_size=ROWS)


def random_variable(choose, number):
    """A variable that could be taken for a slot variable by its name, shape, dtype or collection."""
    scope = choose.choice(["user", "user/accumulator", "tower/user", "user/user", "user/Adagrad_0"])
    width = choose.choice([1, 4, 9])
    with v1.variable_scope("", reuse=False):
        return v1.get_variable(
            "{}/{}_{}".format(scope, choose.choice(["accumulator", "m", "Adam", "kernel"]), number), [ROWS, width],
            initializer=choose.choice([v1.zeros_initializer(), v1.random_normal_initializer()]),
            trainable=choose.random() < 0.3, use_resource=choose.random() < 0.3,
            collections=[choose.choice([v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.LOCAL_VARIABLES])])


@pytest.mark.parametrize("seed", range(5))
def test_no_variable_of_a_program_is_taken_for_a_slot_by_its_name(seed):
    choose = random.Random(seed)
    with programs.ascpipe():
        installing.install()
        user = table()
        made = [random_variable(choose, number) for number in range(6)]
        kind = choose.choice(["adagrad", "ftrl", "lazy_adam"])
        optimizer = programs.optimizer(kind, RATE)
        optimizer._create_slots([user.variable])
        made += [random_variable(choose, number) for number in range(6, 10)]
        own = {"adagrad": ["accumulator"], "ftrl": ["accum", "linear"], "lazy_adam": ["m", "v"]}[kind]
        assert [slot.variable for slot in slot_variables(user)] == [optimizer.get_slot(user.variable, name)
                                                                    for name in own]
        assert not {variable.op.name for variable in made} & {slot.variable.op.name for slot in slot_variables(user)}


class OnePerRow(v1.train.GradientDescentOptimizer):
    """An optimizer with a number for each row, which is not float32[rows, width]."""

    shape, dtype = [ROWS], tf.float32

    def _create_slots(self, var_list):
        for variable in var_list:
            if variable.op.name == "user":
                self._get_or_make_slot(variable, tf.zeros(self.shape, self.dtype), "seen", self._name)


@pytest.mark.parametrize("shape, dtype, text", [
    ([ROWS], tf.float32, r"float32\(13,\)"), ([ROWS, 3], tf.int32, "int32")])
def test_a_slot_whose_rows_cannot_move_is_refused(shape, dtype, text):
    def train(model):
        optimizer = OnePerRow(RATE)
        optimizer.shape, optimizer.dtype = shape, dtype
        return optimizer.minimize(model.loss, var_list=[*v1.trainable_variables(), *model.variables()])

    error = twin_programs.ours(train, "host").error
    assert isinstance(error, OptimizerError) and re.search("'user.*" + text + ".*can move with", str(error))


def test_a_slot_of_the_table_as_a_whole_does_not_move():
    class Counting(v1.train.GradientDescentOptimizer):
        def _create_slots(self, var_list):
            for variable in var_list:
                self._get_or_make_slot(variable, tf.zeros([]), "steps", self._name)

    def train(model):
        return Counting(RATE).minimize(model.loss, var_list=[*v1.trainable_variables(), *model.variables()])

    expected = twin_programs.plain(lambda model: v1.train.GradientDescentOptimizer(RATE).minimize(model.loss))
    assert not require_equal_or_refused(twin_programs.ours(train, "host"), expected)
