"""Writes of the variable of a table, or of a slot variable, as a whole: refused where they would miss or mix rows."""
import contextlib

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import TableUseError
from tests.tf import programs, twin_programs
from tests.tf.twin_programs import BATCH, DIMS, FIRST, TIERS

v1 = tf.compat.v1


class Program:
    """Two tables and a momentum optimizer, whose slots matter to the losses."""

    def __init__(self, tier):
        tables = {name: asc.create_table(name, DIMS[name], **sizes, initializer=v1.constant_initializer(FIRST[name]))
                  for name, sizes in TIERS[tier].items()}
        data = tf.data.Dataset.from_tensor_slices(twin_programs.source()).batch(BATCH).prefetch(4)
        self.iterator = v1.data.make_initializable_iterator(data)
        batch = self.iterator.get_next()
        rows = {name: asc.sparse_lookup(table, batch[name]) for name, table in tables.items()}
        self.model = twin_programs.Model(batch, rows, tables, is_ours=True)
        self.optimizer = v1.train.MomentumOptimizer(0.05, 0.9)
        self.train = self.optimizer.minimize(self.model.loss, var_list=self.model.everything())
        asc.start()

    def steps(self, run, count):
        return [float(run.run([self.model.loss, self.train])[0]) for _ in range(count)]


@contextlib.contextmanager
def running(tier):
    with twin_programs.ascpipe():
        program = Program(tier)
        with programs.session() as run:
            run.run([program.iterator.initializer, v1.global_variables_initializer()])
            yield program, run


def in_one_run(variables):
    return [v1.variables_initializer(variables)]


def behind_an_op(variables):
    with tf.control_dependencies([each.initializer for each in variables]):
        return [tf.constant(1.0)]


def one_by_one(variables):
    return [each.initializer for each in variables]


@pytest.mark.parametrize("reset", [in_one_run, behind_an_op, one_by_one])
def test_slots_of_host_rows_cannot_be_reset_without_their_table(reset):
    with running("host") as (program, run):
        program.steps(run, 3)
        before = program.model.tables["user"].read(range(40))
        slots = reset([program.optimizer.get_slot(table.variable, "momentum")
                       for table in program.model.tables.values()])
        for op in slots:
            with pytest.raises(TableUseError, match="E253: Table '(user|item)' .*initialize its slot variable "
                                                    "'(user|item)/Momentum', but not the table.*Nothing was run"):
                run.run([program.model.loss, program.train, op])
        after = program.model.tables["user"].read(range(40))
        np.testing.assert_array_equal(after.slots["Momentum"], before.slots["Momentum"])
        program.steps(run, 3)


@pytest.mark.parametrize("tier", ["device", "host"])
def test_slots_are_reset_with_their_table_as_at_the_begin(tier):
    with running(tier) as (program, run):
        expected = program.steps(run, 4)
        for reset in (v1.global_variables_initializer(), v1.variables_initializer(v1.global_variables())):
            run.run([program.iterator.initializer, reset])
            assert program.steps(run, 4) == expected
        run.run(program.iterator.initializer)
        for variable in v1.global_variables():
            run.run(variable.initializer)
        assert program.steps(run, 4) == expected


def test_slots_of_device_rows_are_reset_as_in_tensorflow():
    with running("device") as (program, run):
        reset = v1.variables_initializer(program.optimizer.variables())
        found = program.steps(run, 4)
        run.run(reset)
        found += program.steps(run, 4)
    with tf.Graph().as_default():
        iterator = v1.data.make_initializable_iterator(
            tf.data.Dataset.from_tensor_slices(twin_programs.source()).batch(BATCH))
        batch = iterator.get_next()
        tables = {name: v1.get_variable(name, [50, DIMS[name]], use_resource=False,
                                        initializer=v1.constant_initializer(FIRST[name])) for name in DIMS}
        rows = {name: tf.nn.embedding_lookup(table, batch[name]) for name, table in tables.items()}
        model = twin_programs.Model(batch, rows, tables, is_ours=False)
        optimizer = v1.train.MomentumOptimizer(0.05, 0.9)
        train = optimizer.minimize(model.loss)
        reset = v1.variables_initializer(optimizer.variables())
        with programs.session() as run:
            run.run([iterator.initializer, v1.global_variables_initializer()])
            expected = [float(run.run([model.loss, train])[0]) for _ in range(4)]
            run.run(reset)
            expected += [float(run.run([model.loss, train])[0]) for _ in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("tier", ["device", "host"])
@pytest.mark.parametrize("of", ["table", "slot"])
def test_loaded_values_of_a_table_or_a_slot_are_refused_and_of_other_variables_are_not(tier, of):
    with running(tier) as (program, run):
        table = program.model.tables["user"].variable
        variable = table if of == "table" else program.optimizer.get_slot(table, "momentum")
        values = run.run(variable)
        program.steps(run, 3)
        with pytest.raises(TableUseError, match=r"E253: Table 'user' .*the value of 'user.*' was fed to its "
                                                r"initializer.*variable.load\(\).*Nothing was run.*table.assign"):
            variable.load(values, run)
        (dense,) = v1.trainable_variables()
        dense.load(np.full(dense.shape.as_list(), 0.25, np.float32), run)
        assert run.run(dense).tolist() == [0.25] * sum(DIMS.values())
        program.steps(run, 3)
