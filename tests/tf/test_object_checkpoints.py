"""Errors and warnings about ``tf.train.Checkpoint`` and Savers of some variables, which would leave tables out."""
import contextlib

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import TableUseError
from tests.tf import programs, twin_programs

v1 = tf.compat.v1


class Program:
    """A table, two dense variables and an optimizer with slots."""

    def __init__(self):
        ids = np.arange(48).reshape(24, 2) % 7
        data = tf.data.Dataset.from_tensor_slices({"user": ids, "label": np.float32(np.arange(24) % 2)})
        self.iterator = v1.data.make_initializable_iterator(data.repeat().batch(4).prefetch(2))
        batch = self.iterator.get_next()
        self.table = asc.create_table("user", 3, device_vocabulary_size=20, initializer=v1.constant_initializer(0.5))
        self.weights, self.bias = (v1.get_variable(name, shape, initializer=v1.constant_initializer(0.3))
                                   for name, shape in [("weights", [3]), ("bias", [])])
        rows = tf.reduce_sum(asc.sparse_lookup(self.table, batch["user"]), 1)
        self.loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows * self.weights, 1) + self.bias - batch["label"]))
        self.optimizer = v1.train.MomentumOptimizer(0.05, 0.9)
        self.train = self.optimizer.minimize(self.loss, var_list=[self.weights, self.bias, self.table.variable])
        self.savers = {"weights": v1.train.Saver([self.weights]), "by name": v1.train.Saver({"w": self.weights}),
                       "all": v1.train.Saver(), "trainable": v1.train.Saver(v1.trainable_variables()),
                       "table": v1.train.Saver([self.weights, self.table.variable])}
        asc.start()

    def rows(self):
        return self.table.read(range(7)).rows


@contextlib.contextmanager
def running():
    with twin_programs.ascpipe():
        program = Program()
        with programs.session() as run:
            run.run([program.iterator.initializer, v1.global_variables_initializer()])
            for _ in range(3):
                run.run(program.train)
            yield program, run


@pytest.mark.parametrize("saved", [
    lambda program: {"users": program.table.variable},
    lambda program: {"slot": program.optimizer.get_slot(program.table.variable, "momentum")}], ids=["rows", "slots"])
def test_a_checkpoint_of_objects_does_not_save_the_variable_of_a_table(saved, tmp_path):
    with running() as (program, run):
        with pytest.raises(TableUseError, match="E253: Table 'user' .*SaveV2.* saves all rows of 'user.*' without "
                                                "their keys. tf.train.Saver"):
            v1.train.Checkpoint(**saved(program)).save(str(tmp_path / "objects"), session=run)


def test_a_checkpoint_of_objects_does_not_restore_the_variable_of_a_table(tmp_path):
    with tf.Graph().as_default(), programs.session() as run:
        users = v1.get_variable("users", [20, 3], use_resource=False)
        run.run(users.initializer)
        path = v1.train.Checkpoint(users=users).save(str(tmp_path / "objects"), session=run)
    with running() as (program, run):
        with pytest.raises(TableUseError, match="E253: Table 'user' .*restores all rows of 'user' without their keys"):
            v1.train.Checkpoint(users=program.table.variable).restore(path).run_restore_ops(run)


def test_a_checkpoint_of_dense_objects_is_saved_and_restored_with_one_warning(tmp_path, caplog):
    with running() as (program, run):
        for _ in range(2):
            path = v1.train.Checkpoint(weights=program.weights).save(str(tmp_path / "objects"), session=run)
        (line,) = [line for line in caplog.messages if "tf.train.Checkpoint" in line]
        assert "not the rows of table 'user'" in line
        saved, rows = run.run(program.weights), program.rows()
        program.weights.load(np.zeros(3, np.float32), run)
        v1.train.Checkpoint(weights=program.weights).restore(path).run_restore_ops(run)
        np.testing.assert_array_equal(run.run(program.weights), saved)
        np.testing.assert_array_equal(program.rows(), rows)
        run.run(program.train)


@pytest.mark.parametrize("saver, is_warned", [
    ("weights", True), ("by name", True), ("all", False), ("trainable", False), ("table", False)])
def test_a_restore_warns_of_tables_that_the_var_list_leaves_out(saver, is_warned, tmp_path, caplog):
    with running() as (program, run):
        prefix = program.savers[saver].save(run, str(tmp_path / "model"))
        rows = program.rows()
        for _ in range(3):
            run.run(program.train)
        program.savers[saver].restore(run, prefix)
        program.savers[saver].restore(run, prefix)
        np.testing.assert_array_equal(program.rows(), rows)
    lines = [line for line in caplog.messages if "a Saver restores all tables, also 'user'" in line]
    assert len(lines) == is_warned


def test_the_way_that_the_warning_names_restores_one_variable(tmp_path):
    with running() as (program, run):
        prefix = program.savers["all"].save(run, str(tmp_path / "model"))
        saved = run.run(program.weights)
        for _ in range(3):
            run.run(program.train)
        rows = program.rows()
        program.weights.load(tf.train.load_variable(prefix, program.weights.op.name), run)
        np.testing.assert_array_equal(run.run(program.weights), saved)
        np.testing.assert_array_equal(program.rows(), rows)
