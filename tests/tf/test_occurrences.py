"""Which occurrences ops on the gradient of a table read, and when they go on reading the sum of each key."""
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.tf.running.process import Process
from tests.tf import twin_programs
from tests.tf.test_ops_on_gradients import LIMIT, by_global_norm, by_value, halved

v1 = tf.compat.v1


def change_after(runs_before="nothing", ranks=1, change=by_value):
    """Rows after a step of a program that runs its loss, or a changed gradient, before it applies gradients."""
    with twin_programs.ascpipe():
        table = asc.create_table("user", 2, initializer=v1.ones_initializer(), device_vocabulary_size=10)
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors([1, 1, 2]).repeat().prefetch(2))
        loss = tf.reduce_sum(asc.sparse_lookup(table, iterator.get_next()))
        optimizer = asc.optimizers.GradientDescent(0.1)
        pairs = optimizer.compute_gradients(loss)
        changed = change(pairs) if runs_before != "loss" else None
        process = Process.current()
        plain = process.configuration
        with v1.Session() as run:
            if runs_before != "nothing":
                asc.start()
                run.run(iterator.initializer)
                run.run(changed[0][0].values if changed else loss)
            changed = changed or change(pairs)
            process.configuration = dataclasses.replace(plain, rank_size=ranks)
            train = optimizer.apply_gradients(changed)
            process.configuration = plain
            asc.start()
            run.run(iterator.initializer)
            run.run(train)
            return run.run(tf.gather(run.run(table.variable), [0, 1])).tolist()


def test_ops_that_a_session_has_run_before_gradients_are_applied_read_occurrences(caplog):
    np.testing.assert_allclose(sorted(change_after("gradient")), [[1 - 0.2 * LIMIT / 10] * 2,
                                                                  [1 - 0.1 * LIMIT / 10] * 2])
    assert "the program clips or changes its gradient" not in caplog.text


@pytest.mark.parametrize("change", [by_value, by_global_norm], ids=lambda change: change.__name__)
def test_changes_of_the_gradient_over_ranks_are_warned_of(change, caplog):
    change_after(ranks=2, change=change)
    assert "global_norm" not in caplog.text
    assert caplog.text.count("because several ranks exchange these sums") == 1


def test_ops_that_no_session_has_run_read_occurrences(caplog):
    np.testing.assert_allclose(sorted(change_after("loss")), [[1 - 0.2 * LIMIT / 10] * 2, [1 - 0.1 * LIMIT / 10] * 2])
    change_after(ranks=2, change=halved)
    assert "gradient" not in caplog.text


def test_an_op_that_is_added_after_the_first_run_reads_occurrences():
    with twin_programs.ascpipe():
        table = asc.create_table("user", 2, initializer=v1.ones_initializer(), device_vocabulary_size=10)
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors([1, 1, 2]).repeat().prefetch(2))
        loss = tf.reduce_sum(asc.sparse_lookup(table, iterator.get_next()))
        optimizer = asc.optimizers.GradientDescent(0.1)
        pairs = optimizer.compute_gradients(loss)
        train = optimizer.apply_gradients(pairs)
        asc.start()
        with v1.Session() as run:
            run.run(iterator.initializer)
            run.run(train)
            assert run.run([tf.reduce_sum(tf.square(pairs[0][0].values)), train])[0] == 6


# ---- occurrences that train no row

def rows_after_a_clip(ids, tier, lookup, **table):
    """Rows of keys 1 to 3, which begin with 1, after a step whose gradients are clipped by value."""
    with twin_programs.ascpipe(use_dynamic_expansion=tier == "expansion"):
        sizes = {} if tier == "expansion" else {"device_vocabulary_size": 10}
        user = asc.create_table("user", 2, initializer=v1.ones_initializer(), **sizes, **table)
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(ids()).prefetch(2))
        every = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(tf.constant([1, 2, 3], tf.int64)))
        loss = tf.reduce_sum(asc.sparse_lookup(user, iterator.get_next(), **lookup))
        optimizer = asc.optimizers.GradientDescent(1.0)
        train = optimizer.apply_gradients(by_value(optimizer.compute_gradients(loss, asc.table_variables())))
        final = asc.sparse_lookup(user, every.get_next(), training=False, default_value="initial")
        asc.start()
        with v1.Session() as run:
            run.run([iterator.initializer, every.initializer])
            run.run(train)
            return np.round((1 - run.run(final)[:, 0]) / (LIMIT / 10)).tolist()


def dense():
    return tf.constant([[1, 1, 2], [3, 3, 3]], tf.int64)


def with_missing_positions():
    return tf.sparse.from_dense([[1, 0, 2], [3, 1, 0]])


@pytest.mark.parametrize("tier", ["device", "expansion"])
@pytest.mark.parametrize("ids, lookup, table, occurrences", [
    (dense, {}, {"padding_keys": [1]}, [0, 1, 3]), (dense, {"access_threshold": 2}, {}, [2, 0, 3]),
    (with_missing_positions, {}, {}, [2, 1, 1]), (with_missing_positions, {}, {"padding_keys": [3]}, [2, 1, 0])],
    ids=["padding", "not admitted", "missing", "missing and padding"])
@pytest.mark.each_value
def test_occurrences_that_train_no_row_are_left_out(ids, lookup, table, occurrences, tier):
    assert rows_after_a_clip(ids, tier, lookup, **table) == occurrences
