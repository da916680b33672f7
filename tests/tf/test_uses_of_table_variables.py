"""The variable that holds the rows of a step is no variable of the model: what uses all of it is refused."""
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.training import moving_averages

import ascpipe.tf as asc
from ascpipe.errors import TableUseError
from tests.support.contrib import contrib
from tests.tf import programs, twin_programs
from tests.tf.twin_programs import RATE, require_equal_or_refused

v1 = tf.compat.v1


def minimized(model, kind="adagrad"):
    return model.optimizer(kind).minimize(model.loss)


def beside(use):
    """A program that trains its tables, and does something with the variable of one, or with its optimizer."""
    def train(model):
        optimizer = model.optimizer("adagrad")
        update = optimizer.minimize(model.loss)
        used = use(model.tables["user"].variable, model, optimizer)
        return update if used is None else tf.group(update, used)
    return train


def zeros(like):
    return np.zeros(like.shape.as_list(), np.float32)


def other(like):
    return v1.Variable(tf.zeros(like.shape), trainable=False, use_resource=False)


REFUSED = {
    "a lookup by ids": lambda variable, model, _: tf.nn.embedding_lookup(variable, model.batch["user"]),
    "a slice": lambda variable, *_: tf.identity(variable[:3]),
    "a norm": lambda variable, *_: tf.nn.l2_loss(variable),
    "a sum": lambda variable, *_: tf.reduce_sum(variable),
    "a product": lambda variable, *_: tf.matmul(variable, tf.ones([3, 1])),
    "an assignment": lambda variable, *_: variable.assign(zeros(variable)),
    "an addition": lambda variable, *_: variable.assign_add(zeros(variable)),
    "a decay": lambda variable, *_: v1.assign_sub(variable, 0.01 * variable),
    "a copy": lambda variable, *_: other(variable).assign(variable),
    "a copy of its first value": lambda variable, *_: v1.Variable(variable.initialized_value()).initializer,
    "an update by ids": lambda variable, model, _: v1.scatter_update(
        variable, model.batch["item"], tf.zeros([6, 3])),
    "a moving average": lambda variable, *_: moving_averages.assign_moving_average(other(variable), variable, 0.9),
    "a slot that is reset": lambda variable, _, optimizer: v1.assign(
        optimizer.get_slot(variable, "accumulator"), zeros(variable)),
    "a slot that is summed": lambda variable, _, optimizer: tf.reduce_sum(optimizer.get_slot(variable, "accumulator")),
    "values of a conditional": lambda variable, *_: tf.cond(
        tf.constant(True), lambda: tf.reduce_sum(variable), lambda: tf.constant(0.0)),
}

ALLOWED = {
    "a histogram": lambda variable, *_: v1.summary.histogram("rows", variable),
    "its shape": lambda variable, *_: tf.shape(variable),
    "its size": lambda variable, *_: tf.size(variable),
    "whether it is initialized": lambda variable, *_: v1.report_uninitialized_variables(),
    "checks of all numbers, not run": lambda *_: [v1.add_check_numerics_ops()],
    "a copy that nothing reads": lambda variable, *_: tf.identity(variable),
    "its first value, not run": lambda variable, *_: [variable.initialized_value()],
    "an average of dense variables": lambda variable, *_: tf.train.ExponentialMovingAverage(0.9).apply(
        v1.trainable_variables()),
}


@pytest.mark.parametrize("tier", ["device", "host"])
@pytest.mark.parametrize("use", REFUSED.values(), ids=list(REFUSED))
@pytest.mark.each_value
def test_a_use_of_all_rows_is_refused_by_an_error_that_names_table_and_op(use, tier):
    found = twin_programs.ours(beside(use), tier)
    assert require_equal_or_refused(found, None)
    assert found.error.code == "E253"
    assert "op '" in str(found.error)


def test_uses_that_do_not_depend_on_the_rows_are_none():
    def train(model):
        update = model.optimizer("adagrad").minimize(model.loss)
        if not model.is_ours:
            return update
        used = [use(model.tables["user"].variable, model, None) for use in ALLOWED.values()]
        return tf.group(update, *(each for each in used if each is not None and not isinstance(each, list)))

    assert not require_equal_or_refused(
        twin_programs.ours(train, "host"), twin_programs.plain(lambda model: minimized(model)))


def averaged_by_an_optimizer(model):
    return contrib("opt").MovingAverageOptimizer(model.optimizer("adagrad")).minimize(
        model.loss, var_list=[*v1.trainable_variables(), *model.variables()])


def averaged_without_a_list(model):
    return contrib("opt").MovingAverageOptimizer(model.optimizer("adagrad")).minimize(model.loss)


def averages(chosen):
    def train(model):
        update = minimized(model)
        return tf.group(update, tf.train.ExponentialMovingAverage(0.9).apply(chosen(model)))
    return train


@pytest.mark.parametrize("tier", ["host", "expansion"])
@pytest.mark.parametrize("train", [
    averaged_by_an_optimizer, averaged_without_a_list, averages(lambda model: model.everything()),
    averages(lambda model: [model.tables["user"]]), averages(lambda model: [model.tables["user"].variable])],
    ids=["optimizer", "optimizer without a list", "everything", "table", "variable"])
@pytest.mark.each_value
def test_a_moving_average_of_a_table_is_an_error_that_says_what_to_write(train, tier):
    found = twin_programs.ours(train, tier)
    assert require_equal_or_refused(found, None)
    assert found.error.code == "E253"
    assert "'user'" in str(found.error)
    assert "asc.Optimizer(dense=MovingAverageOptimizer(...), sparse=...)" in str(found.error)


def test_a_moving_average_of_dense_variables_goes_with_tables():
    def train(model):
        dense = contrib("opt").MovingAverageOptimizer(v1.train.AdagradOptimizer(RATE))
        if model.is_ours:
            return asc.Optimizer(dense=dense, sparse=v1.train.AdagradOptimizer(RATE)).minimize(model.loss)
        return dense.minimize(model.loss)

    assert not require_equal_or_refused(twin_programs.ours(train, "host"), twin_programs.plain(train))


def test_an_op_that_is_made_after_the_first_run_is_refused_at_the_next():
    with programs.ascpipe():
        program = programs.Program(programs.batches(2), lambda: programs.optimizer("adagrad", 0.1))
        with programs.session() as run:
            program.initialise(run)
            run.run(program.train)
            run.run(tf.constant(1.0))
            norm = tf.nn.l2_loss(program.user.variable)
            for _ in range(2):
                with pytest.raises(TableUseError, match="'user'.*L2Loss"):
                    run.run(norm)


@pytest.mark.parametrize("look_up", [
    tf.nn.embedding_lookup, tf.gather, lambda table, ids: tf.nn.embedding_lookup([table], ids),
    lambda table, ids: tf.nn.safe_embedding_lookup_sparse(table, tf.SparseTensor([[0, 0]], ids, [1, 1]))],
    ids=["embedding_lookup", "gather", "a list", "sparse"])
@pytest.mark.parametrize("begun, text", [
    (twin_programs.ascpipe, r"'user'.*asc\.sparse_lookup\(table, ids\).*asc\.lookup_sparse"),
    (programs.ascpipe, r"'user'.*call sparse_lookup\(table, ids, modify_graph=True\)")], ids=["plain", "incumbent"])
@pytest.mark.each_value
def test_a_table_that_is_given_to_a_lookup_of_tensorflow_is_refused(begun, text, look_up):
    with begun():
        with pytest.raises(ValueError, match=text):
            look_up(programs.table("user"), [1])
