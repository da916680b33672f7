"""Training over tables computes what training over plain variables computes."""
import functools

import numpy as np
import pytest
import tensorflow as tf

from mx_rec.optimizers import adagrad, ftrl, gradient_descent, lazy_adam
from tests.support.contrib import contrib
from tests.tf import programs

SOURCE = programs.batches(40)


def contrib_lazy_adam():
    return contrib("opt").LazyAdamOptimizer(0.05)


PEERS = {
    "adagrad": (lambda: adagrad.create_hash_optimizer(0.3, initial_accumulator_value=0.1),
                lambda: tf.compat.v1.train.AdagradOptimizer(0.3, initial_accumulator_value=0.1)),
    "lazy_adam": (lambda: lazy_adam.create_hash_optimizer(0.05), contrib_lazy_adam),
    "ftrl": (lambda: ftrl.create_hash_optimizer(0.3, l2_regularization_strength=0.01),
             lambda: tf.compat.v1.train.FtrlOptimizer(0.3, l2_regularization_strength=0.01)),
    "gradient_descent": (lambda: gradient_descent.create_hash_optimizer(0.5),
                         lambda: tf.compat.v1.train.GradientDescentOptimizer(0.5)),
}


@functools.lru_cache(maxsize=None)
def usual_losses(name):
    """Losses with the usual settings; the same every time, so that one run is enough."""
    return programs.our_losses(SOURCE, PEERS[name][0])


@pytest.fixture(scope="module")
def first():
    return programs.first_rows(SOURCE)


def test_first_rows_depend_on_seed_and_key_alone(first):
    again = programs.first_rows(SOURCE[::-1])
    for name in ("user", "item"):
        assert sorted(again[name]) == sorted(first[name])
        for key, row in first[name].items():
            np.testing.assert_array_equal(again[name][key], row)
    assert not np.array_equal(first["user"][0], first["user"][1])


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.smoke
def test_losses_equal_those_of_plain_variables(name, first):
    expected = programs.plain_losses(SOURCE, PEERS[name][1], first)
    losses = usual_losses(name)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert losses[-1] != losses[0]


def test_tensorflows_own_optimizer_on_a_table_equals_it_on_a_variable(first):
    def optimizer():
        return tf.compat.v1.train.AdagradOptimizer(0.3)

    np.testing.assert_allclose(programs.our_losses(SOURCE, optimizer), programs.plain_losses(SOURCE, optimizer, first),
                               rtol=1e-5)


def test_shapes_device_sizes_workers_and_rings_change_no_bit(monkeypatch):
    optimizer = PEERS["adagrad"][0]
    expected = usual_losses("adagrad")
    assert programs.our_losses(SOURCE, optimizer, use_dynamic=False, send_count=64) == expected
    assert programs.our_losses(SOURCE, optimizer, rows=programs.KEYS) == expected
    for name, value in (("WORKERS", 3), ("TABLE_WORKERS", 2), ("RING_FRAMES", 2)):
        monkeypatch.setenv("ASCPIPE_" + name, str(value))
    assert programs.our_losses(SOURCE, optimizer) == expected


@pytest.mark.parametrize("name", ["lazy_adam", "ftrl"])
def test_keys_of_lookups_without_gradient_are_not_trained(name, first):
    ours, theirs = PEERS[name]
    is_grad = [True, False, True]
    losses = programs.our_losses(SOURCE, ours, is_grad=is_grad)
    np.testing.assert_allclose(losses, programs.plain_losses(SOURCE, theirs, first, is_grad=is_grad), rtol=1e-5)
    assert losses != usual_losses(name)


def test_a_subclass_may_scatter_into_the_table():
    class Nudge(gradient_descent.CustomizedGradientDescent):
        def _apply_sparse_duplicate_indices(self, grad, var):
            rows = tf.gather(var, grad.indices)
            return tf.compat.v1.scatter_nd_add(var, grad.indices[:, None], -0.5 * (grad.values + 0.0 * rows))

    expected = usual_losses("gradient_descent")
    np.testing.assert_allclose(programs.our_losses(SOURCE, lambda: Nudge(0.1)), expected, rtol=1e-6)


def test_send_count_is_of_the_distinct_keys_of_a_batch_for_each_feature_of_the_table():
    distinct = [(np.union1d(batch["a"], batch["b"]), np.unique(batch["c"])) for batch in SOURCE]
    needed = max(max(-(-len(user) // 2), len(item)) for user, item in distinct)
    train = functools.partial(programs.our_losses, SOURCE, PEERS["adagrad"][0], use_dynamic=False)
    assert train(send_count=needed) == usual_losses("adagrad")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"has \d+ distinct keys, more than send_count allows "
                       r"\({} for each of [12] features\)".format(needed - 1)):
        train(send_count=needed - 1)
