"""Clips and other ops between the gradient of a table and its optimizer compute what they compute in TensorFlow.

TensorFlow's gradient of ``embedding_lookup`` has a row for each occurrence of an id, and so have clips and norms. All
programs here are those of TensorFlow, with ids that repeat within a batch.
"""
import functools
import random

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import twin_programs
from tests.tf.twin_programs import RATE, contrib, quiet, require_equal_or_refused

v1 = tf.compat.v1
LIMIT = 0.02  #: below most norms of these gradients


# ---- what programs do with the gradients of all variables: pairs -> pairs

def each(change):
    def all_pairs(pairs):
        return [(change(gradient), variable) for gradient, variable in pairs]
    all_pairs.__name__ = change.__name__
    return all_pairs


def of_values(change):
    def of_gradient(gradient):
        if not isinstance(gradient, tf.IndexedSlices):
            return change(gradient)
        return tf.IndexedSlices(change(gradient.values), gradient.indices, gradient.dense_shape)
    of_gradient.__name__ = change.__name__
    return of_gradient


@each
def by_norm(gradient):
    return tf.clip_by_norm(gradient, LIMIT)


@each
def by_the_norm_of_each_row(gradient):
    return gradient if not isinstance(gradient, tf.IndexedSlices) else tf.clip_by_norm(gradient, LIMIT, axes=[1])


@each
def by_value(gradient):
    return tf.clip_by_value(gradient, -LIMIT / 10, LIMIT / 10)


@each
@of_values
def by_average_norm(values):
    return tf.compat.v1.clip_by_average_norm(values, LIMIT / 10)


@each
@of_values
def by_sign(values):
    return tf.sign(values) * LIMIT


@each
@of_values
def by_python(values):
    changed = v1.py_func(lambda array: np.clip(array, np.float32(-LIMIT), None), [values], tf.float32)
    changed.set_shape(values.shape)
    return changed


@each
@of_values
def scaled_by_its_largest_number(values):
    return values / (1e-3 + tf.reduce_max(tf.abs(values)))


@each
@of_values
def halved(values):
    return 0.5 * values


@each
@of_values
def negated_twice(values):
    return -tf.negative(tf.identity(values))


@each
@of_values
def without_nan(values):
    return tf.where(tf.math.is_nan(values), tf.zeros_like(values), values)


@each
def with_a_norm_in_a_conditional(gradient):
    def clipped():
        return tf.clip_by_norm(gradient, LIMIT)

    if not isinstance(gradient, tf.IndexedSlices):
        return tf.cond(tf.norm(gradient) > 0, clipped, lambda: tf.identity(gradient))
    return tf.cond(tf.norm(gradient.values) > LIMIT, clipped, lambda: tf.IndexedSlices(
        tf.identity(gradient.values), tf.identity(gradient.indices), tf.identity(gradient.dense_shape)))


def by_global_norm(pairs):
    gradients, variables = zip(*pairs)
    return list(zip(tf.clip_by_global_norm(gradients, 5 * LIMIT)[0], variables))


def by_our_global_norm(pairs):
    """A program over tables may have either."""
    gradients, variables = zip(*pairs)
    return list(zip(asc.clip_by_global_norm(gradients, 5 * LIMIT)[0], variables))


def by_the_global_norm_of_scaled_gradients(pairs):
    """As loss scaling does: the norm is that of gradients that were divided before."""
    return by_global_norm([(halved([(gradient, None)])[0][0], variable) for gradient, variable in pairs])


def skipped_where_a_norm_is_large(pairs):
    """All gradients are zeros where the norm of one is above a limit."""
    is_small = tf.cast(v1.global_norm([gradient for gradient, _ in pairs]) < 0.5, tf.float32)
    return each(of_values(lambda values: values * is_small))(pairs)


CHANGES = [by_norm, by_the_norm_of_each_row, by_value, by_average_norm, by_sign, by_python,
           scaled_by_its_largest_number, halved, negated_twice, without_nan, with_a_norm_in_a_conditional,
           by_global_norm, by_our_global_norm, by_the_global_norm_of_scaled_gradients, skipped_where_a_norm_is_large]


def changed(kind, changes):
    def train(model):
        optimizer = model.optimizer(kind)
        pairs = optimizer.compute_gradients(model.loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)
        for change in changes:
            pairs = change(pairs)
        return optimizer.apply_gradients(pairs)
    return train


def check(train, tier, mode, folder):
    with quiet():
        found = twin_programs.ours(train, tier, mode, folder=folder)
        assert not require_equal_or_refused(found, expected(train))


@functools.lru_cache(maxsize=None)
def expected(train):
    return twin_programs.plain(train)


@pytest.mark.parametrize("tier, kind", [("device", "adagrad"), ("host", "lazy_adam"), ("expansion", "adagrad"),
                                        ("disk", "ftrl"), ("host", "gradient_descent")])
@pytest.mark.parametrize("changes", [
    [by_norm], [by_value, by_our_global_norm], [without_nan, by_the_norm_of_each_row],
    [scaled_by_its_largest_number, by_the_global_norm_of_scaled_gradients], [with_a_norm_in_a_conditional],
    [by_python, skipped_where_a_norm_is_large],
    *(pytest.param([change], marks=pytest.mark.long) for change in CHANGES)],
    ids=lambda changes: " ".join(change.__name__ for change in changes))
@pytest.mark.each_value
def test_ops_between_gradients_and_an_optimizer_are_those_of_tensorflow(changes, tier, kind, tmp_path):
    check(changed(kind, changes), tier, "tensors", tmp_path)


@pytest.mark.parametrize("change", [by_global_norm, by_value], ids=lambda change: change.__name__)
def test_what_is_applied_has_each_row_once(change):
    def train(model):
        optimizer = model.optimizer("adagrad")
        pairs = change(halved(optimizer.compute_gradients(model.loss)))
        update = optimizer.apply_gradients(pairs)
        if model.is_ours:
            applied = [op.type for op in update.graph.get_operations() if "/update_user/" in "/" + op.name]
            assert "AscApplyAdagrad" in applied
            assert "Unique" not in applied
        return update

    check(train, "host", "tensors", ".")


# ---- the same where the change is one of TensorFlow's library, or the update is in a conditional

def by_contrib_estimator(kind):
    def train(model):
        contrib("estimator")
        return contrib("estimator").clip_gradients_by_norm(model.optimizer(kind), LIMIT).minimize(
            model.loss, var_list=model.everything())
    return train


def by_optimize_loss(kind):
    def train(model):
        return contrib("layers").optimize_loss(
            model.loss, v1.train.get_or_create_global_step(), RATE, lambda rate: model.optimizer(kind),
            variables=model.everything(), clip_gradients=5 * LIMIT, summaries=["gradients", "global_gradient_norm"])
    return train


def by_create_train_op(kind):
    def train(model):
        dense = twin_programs.OPTIMIZERS[kind][1]()
        optimizer = asc.Optimizer(dense=dense, sparse=lambda: model.optimizer(kind)) if model.is_ours else dense
        return contrib("slim").learning.create_train_op(
            model.loss, optimizer, clip_gradient_norm=LIMIT, summarize_gradients=True)
    return train


def clipped_in_a_conditional(kind):
    def train(model):
        optimizer = model.optimizer(kind)
        pairs = optimizer.compute_gradients(model.loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)
        gradients = [getattr(gradient, "values", gradient) for gradient, _ in pairs]
        with tf.control_dependencies(gradients):
            return tf.cond(model.loss > 0, lambda: optimizer.apply_gradients(by_norm(pairs)), tf.no_op)
    return train


def minimized_in_a_conditional(kind):
    def train(model):
        def minimized():
            optimizer = model.optimizer(kind)
            pairs = optimizer.compute_gradients(model.loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)
            return optimizer.apply_gradients(by_global_norm(pairs))

        with tf.control_dependencies([model.loss]):
            return tf.cond(model.loss > 0, minimized, tf.no_op)
    return train


def clipped_or_as_it_is(kind):
    """One gradient is applied in two ways, each in a branch."""
    def train(model):
        count = v1.get_variable("count", [], tf.int64, v1.zeros_initializer(), trainable=False, use_resource=True)
        optimizer = model.optimizer(kind)
        pairs = optimizer.compute_gradients(model.loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)
        gradients = [getattr(gradient, "values", gradient) for gradient, _ in pairs]
        with tf.control_dependencies(gradients):
            now = count.assign_add(1)
            return tf.cond(tf.equal(now % 2, 0), lambda: optimizer.apply_gradients(pairs),
                           lambda: optimizer.apply_gradients(by_norm(pairs)))
    return train


def skipped_if_not_finite(kind):
    """As a program with loss scaling."""
    def train(model):
        optimizer = model.optimizer(kind)
        pairs = halved(optimizer.compute_gradients(2 * model.loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH))
        gradients = [getattr(gradient, "values", gradient) for gradient, _ in pairs]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])
        with tf.control_dependencies(gradients):
            return tf.cond(finite, lambda: optimizer.apply_gradients(by_global_norm(pairs)), tf.no_op)
    return train


def measured_and_applied_in_a_conditional(kind):
    """A branch reads a gradient for its norm, and applies it as it is."""
    def train(model):
        optimizer = model.optimizer(kind)
        pairs = optimizer.compute_gradients(model.loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)
        kept = v1.get_variable("kept", [], initializer=v1.zeros_initializer(), trainable=False, use_resource=True)

        def applied():
            with tf.control_dependencies([kept.assign_add(v1.global_norm([each for each, _ in pairs]))]):
                return optimizer.apply_gradients(pairs)

        gradients = [getattr(gradient, "values", gradient) for gradient, _ in pairs]
        with tf.control_dependencies(gradients):
            updated = tf.cond(kept < 3 * twin_programs.STEPS * LIMIT, applied, tf.no_op)
        with tf.control_dependencies([updated]):
            return tf.group(updated, kept.read_value())
    return train


@pytest.mark.parametrize("tier, kind", [("host", "adagrad"), ("device", "lazy_adam")])
@pytest.mark.parametrize("way", [
    by_contrib_estimator, by_optimize_loss, clipped_or_as_it_is, skipped_if_not_finite,
    measured_and_applied_in_a_conditional,
    *(pytest.param(way, marks=pytest.mark.long) for way in (
        by_create_train_op, clipped_in_a_conditional, minimized_in_a_conditional))], ids=lambda way: way.__name__)
@pytest.mark.each_value
def test_clips_of_tensorflows_libraries_and_in_conditionals_are_those_of_tensorflow(way, tier, kind, tmp_path):
    check(way(kind), tier, "features", tmp_path)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_the_norm_that_a_program_shows_is_that_of_tensorflow(before):
    norms = {}

    def train(model):
        optimizer = model.optimizer("adagrad")
        pairs = optimizer.compute_gradients(model.loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)

        def shown():
            norm = v1.global_norm([gradient for gradient, _ in pairs])
            keep = norms.setdefault(model.is_ours, []).append
            return tf.group(v1.py_func(lambda value: keep(float(value)), [norm], []))

        if before:
            with tf.control_dependencies([shown()]):
                return optimizer.apply_gradients(pairs)
        return tf.group(optimizer.apply_gradients(pairs), shown())

    check(train, "host", "tensors", ".")
    assert len(norms[True]) == twin_programs.STEPS
    np.testing.assert_allclose(norms[True], norms[False], rtol=1e-5)


def random_programs(count, seed):
    choose = random.Random(seed)
    for _ in range(count):
        tier, kind = choose.choice(sorted(twin_programs.TIERS)), choose.choice(sorted(twin_programs.OPTIMIZERS))
        if tier != "expansion" or kind != "ftrl":
            yield choose.choices(CHANGES, k=choose.choice([1, 2, 2, 3])), kind, tier, choose.choice(
                ["features", "tensors"])


@pytest.mark.long
@pytest.mark.timeout_s(1800)
@pytest.mark.parametrize("seed", range(4))
def test_many_compositions_of_ops_are_those_of_tensorflow(seed, tmp_path):
    twin_programs.refused(random_programs(40, seed), lambda changes, kind, tier, mode: check(
        changed(kind, changes), tier, mode, tmp_path))
