"""Only the gradient of this step's lookups trains a table; a dense one, or one that was kept, is refused."""
import functools
import random

import numpy as np
import pytest
import tensorflow as tf

from tests.tf import twin_programs
from tests.tf.twin_programs import quiet, require_equal_or_refused

v1 = tf.compat.v1
pytestmark = pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")


class Gradient:
    """A gradient of a table, while a program changes it.

    Attributes:
        slices: tf.IndexedSlices, or a dense tensor.
        rows: what its indices name: a variable, or the rows of the batch.
    """

    def __init__(self, slices, rows):
        self.slices, self.rows = slices, rows

    def values(self, change):
        """Change the values alone."""
        if isinstance(self.slices, tf.IndexedSlices):
            return tf.IndexedSlices(change(self.slices.values), self.slices.indices, self.slices.dense_shape)
        return change(self.slices)

    def dense(self):
        return tf.convert_to_tensor(self.slices)


def variable_like(gradient, *, use_resource=False):
    """A variable of the program, as large as a table's."""
    shape = tf.convert_to_tensor(gradient.rows).shape
    return v1.Variable(tf.zeros(shape), trainable=False, use_resource=use_resource)


# ---- changes that keep the gradient one of this step's rows

def scaled(gradient):
    return gradient.values(lambda values: 0.5 * values)


def without_nan(gradient):
    return gradient.values(lambda values: tf.where(tf.math.is_nan(values), tf.zeros_like(values), values))


def clipped(gradient):
    return gradient.values(lambda values: tf.clip_by_value(values, -0.01, 0.01))


def by_numpy(gradient):
    def tenfold(values):
        changed = v1.py_func(lambda array: np.float32(10) * array, [values], tf.float32)
        changed.set_shape(values.shape)
        return changed

    return gradient.values(tenfold)


def decayed(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return slices + 0.1 * gradient.rows
    return tf.IndexedSlices(slices.values + 0.1 * tf.gather(gradient.rows, slices.indices), slices.indices,
                            slices.dense_shape)


def gated(gradient):
    return tf.tuple([gradient.slices, tf.constant(1.0)])[0]


def stopped(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return tf.stop_gradient(slices)
    return tf.IndexedSlices(tf.stop_gradient(slices.values), tf.identity(tf.stop_gradient(slices.indices)),
                            slices.dense_shape)


def in_two_halves(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return slices
    return tf.IndexedSlices(tf.concat([0.5 * slices.values, 0.5 * slices.values], 0),
                            tf.concat([slices.indices, slices.indices], 0), slices.dense_shape)


def summed_by_row(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return slices
    rows, places = tf.unique(slices.indices)
    return tf.IndexedSlices(v1.unsorted_segment_sum(slices.values, places, tf.size(rows)), rows, slices.dense_shape)


def large_rows_only(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return slices
    mask = tf.norm(slices.values, axis=1) > 1e-3
    return tf.IndexedSlices(tf.boolean_mask(slices.values, mask), tf.boolean_mask(slices.indices, mask),
                            slices.dense_shape)


def in_a_conditional(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return slices
    bad = tf.reduce_any(tf.math.is_nan(slices.values))
    return tf.cond(bad, lambda: tf.IndexedSlices(tf.zeros_like(slices.values), slices.indices, slices.dense_shape),
                   lambda: tf.IndexedSlices(tf.identity(slices.values), tf.identity(slices.indices),
                                            tf.identity(slices.dense_shape)))


# ---- changes that make it dense

def where_nan(gradient):
    return tf.where(tf.math.is_nan(gradient.slices), tf.zeros_like(gradient.slices), gradient.slices)


def weight_decay(gradient):
    return tf.add(gradient.slices, 0.1 * gradient.rows)


def masked(gradient):
    mask = np.ones(tf.convert_to_tensor(gradient.rows).shape.as_list(), np.float32)
    mask[:1] = 0
    return tf.multiply(gradient.slices, mask)


def with_a_dense_tensor(gradient):
    return tf.add_n([gradient.dense(), 0.01 * tf.ones_like(gradient.rows)])


def converted(gradient):
    return gradient.dense()


def densified_and_taken_again(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return slices
    rows, _ = tf.unique(slices.indices)
    return tf.IndexedSlices(tf.gather(0.5 * gradient.dense(), rows), rows, slices.dense_shape)


# ---- gradients, or row numbers, that outlive their step

def accumulated(gradient):
    kept = variable_like(gradient)
    return kept.assign_add(gradient.dense())


def accumulated_and_taken(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return accumulated(gradient)
    kept = variable_like(gradient)
    with tf.control_dependencies([v1.scatter_add(kept, slices.indices, slices.values)]):
        return tf.IndexedSlices(tf.gather(kept, slices.indices), slices.indices, slices.dense_shape)


def averaged(gradient):
    """As momentum that a program keeps by itself."""
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return accumulated(gradient)
    kept = variable_like(gradient)
    new = 0.9 * tf.gather(kept, slices.indices) + slices.values
    with tf.control_dependencies([v1.scatter_update(kept, slices.indices, new)]):
        return tf.IndexedSlices(tf.identity(new), slices.indices, slices.dense_shape)


def averaged_in_a_resource(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return accumulated(gradient)
    kept = variable_like(gradient, use_resource=True)
    new = 0.9 * tf.gather(kept, slices.indices) + slices.values
    with tf.control_dependencies([kept.scatter_update(tf.IndexedSlices(new, slices.indices))]):
        return tf.IndexedSlices(tf.identity(new), slices.indices, slices.dense_shape)


def through_an_accumulator(gradient):
    if not isinstance(gradient.slices, tf.IndexedSlices):
        keeper = v1.ConditionalAccumulator(tf.float32, gradient.slices.shape)
        with tf.control_dependencies([keeper.apply_grad(gradient.slices)]):
            return keeper.take_grad(1)
    keeper = v1.SparseConditionalAccumulator(tf.float32)
    with tf.control_dependencies([keeper.apply_indexed_slices_grad(gradient.slices)]):
        return keeper.take_indexed_slices_grad(1)


def through_a_queue(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return slices
    queue = tf.queue.FIFOQueue(4, [tf.float32, tf.int32])
    with tf.control_dependencies([queue.enqueue([slices.values, tf.cast(slices.indices, tf.int32)])]):
        values, indices = queue.dequeue()
    values.set_shape(slices.values.shape)
    indices.set_shape([None])
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def values_through_a_queue(gradient):
    def kept(values):
        queue = tf.queue.FIFOQueue(4, [tf.float32])
        with tf.control_dependencies([queue.enqueue([values])]):
            taken = queue.dequeue()
        taken.set_shape(values.shape)
        return taken

    return gradient.values(kept)


def of_rows_that_are_kept(gradient):
    """As an optimizer that steps from rows it has seen before."""
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return slices
    width = tf.convert_to_tensor(gradient.rows).shape[1]
    kept = v1.Variable(tf.zeros([1, width]), trainable=False, use_resource=False, validate_shape=False)
    with tf.control_dependencies([v1.assign(kept, tf.gather(gradient.rows, slices.indices), validate_shape=False)]):
        return gradient.values(tf.identity)


# ---- row numbers taken for ids

def without_id_0(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return masked(gradient)
    keep = tf.cast(tf.not_equal(slices.indices, 0), tf.float32)
    return tf.IndexedSlices(slices.values * keep[:, tf.newaxis], slices.indices, slices.dense_shape)


def by_a_factor_of_each_id(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return masked(gradient)
    factors = tf.constant(np.linspace(0.5, 1.5, 100), tf.float32)
    return tf.IndexedSlices(slices.values * tf.gather(factors, slices.indices)[:, tf.newaxis], slices.indices,
                            slices.dense_shape)


def of_the_next_row(gradient):
    slices = gradient.slices
    if not isinstance(slices, tf.IndexedSlices):
        return slices
    return tf.IndexedSlices(slices.values, tf.math.floormod(slices.indices + 1, 7), slices.dense_shape)


LINEAR = [scaled, without_nan, gated, stopped, in_two_halves, summed_by_row]
NOT_LINEAR = [clipped, by_numpy, decayed, large_rows_only]
MADE_DENSE = [where_nan, weight_decay, masked, with_a_dense_tensor, converted]
OUTLIVING = [accumulated, accumulated_and_taken, averaged, averaged_in_a_resource, through_an_accumulator,
             through_a_queue, values_through_a_queue, of_rows_that_are_kept]
TAKEN_FOR_IDS = [without_id_0, by_a_factor_of_each_id, of_the_next_row]
CHANGES = [*LINEAR, *NOT_LINEAR, in_a_conditional, densified_and_taken_again, *MADE_DENSE, *OUTLIVING,
           *TAKEN_FOR_IDS]
#: Rows of tables that grow are those of the batch: a dense gradient of them is one of this step.
NOT_OF_THE_BATCH = [weight_decay, masked, with_a_dense_tensor, *OUTLIVING, by_a_factor_of_each_id]


def trained_by(kind, changes, only=None):
    """The function for twins: gradients of tables go through the changes, one after the other."""
    def train(model):
        optimizer = model.optimizer(kind)
        pairs = optimizer.compute_gradients(model.loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)
        rows = dict(zip(("user", "item"), model.variables()))
        changed = []
        with quiet():
            for place, (slices, target) in enumerate(pairs):
                name = ("dense", "user", "item")[place] if model.is_ours else ("user", "item", "dense")[place]
                if name in rows and only in (None, name):
                    for change in changes:
                        slices = change(Gradient(slices, rows[name]))
                changed.append((slices, target))
            return optimizer.apply_gradients(changed)
    return train


@functools.lru_cache(maxsize=None)
def expected(kind, changes, only=None):
    return twin_programs.plain(trained_by(kind, changes, only))


def check(kind, changes, tier, mode, folder, only=None):
    """The rule for one composition; whether it was refused."""
    found = twin_programs.ours(trained_by(kind, changes, only), tier, mode, folder)
    if found.error is not None:
        return require_equal_or_refused(found, None)
    return require_equal_or_refused(found, expected(kind, tuple(changes), only))


@pytest.mark.parametrize("tier", ["device", "host"])
@pytest.mark.parametrize("changes", [
    LINEAR, [*NOT_LINEAR, in_a_conditional, densified_and_taken_again],
    *(pytest.param([change], marks=pytest.mark.long) for change in [
        *LINEAR, *NOT_LINEAR, in_a_conditional, densified_and_taken_again])],
    ids=lambda changes: changes[0].__name__ if len(changes) == 1 else "{} and others".format(changes[0].__name__))
@pytest.mark.each_value
def test_a_gradient_that_stays_one_of_this_step_trains_as_in_tensorflow(changes, tier, tmp_path):
    assert not check("lazy_adam" if tier == "host" else "adagrad", changes, tier, "tensors", tmp_path)


@pytest.mark.parametrize("tier", ["device", "host"])
@pytest.mark.parametrize("change", [*MADE_DENSE, *OUTLIVING, *TAKEN_FOR_IDS], ids=lambda change: change.__name__)
@pytest.mark.each_value
def test_other_gradients_are_refused_before_the_first_update(change, tier, tmp_path):
    assert check("gradient_descent", [change], tier, "features", tmp_path)


def test_an_optimizer_of_a_program_that_updates_other_rows_is_refused():
    def train(model):
        class Shifting(type(model.optimizer("adagrad"))):
            def _apply_sparse_duplicate_indices(self, grad, var):
                return super()._apply_sparse_duplicate_indices(
                    tf.IndexedSlices(grad.values, tf.range(tf.size(grad.indices)), grad.dense_shape), var)

        return Shifting(0.1, name="Shifting").minimize(model.loss)

    found = twin_programs.ours(train, "host")
    assert require_equal_or_refused(found, None)
    assert "AscApplyAdagrad" in str(found.error)


def random_compositions(count, seed):
    """Changes, one to three, of gradients of one table or both, in a tier and mode, by an optimizer."""
    choose = random.Random(seed)
    while count:
        tier = choose.choice(sorted(twin_programs.TIERS))
        changes = choose.choices(CHANGES, k=choose.choice([1, 1, 2, 3]))
        kind = choose.choice(sorted(twin_programs.OPTIMIZERS))
        if tier == "expansion" and (kind == "ftrl" or any(change in NOT_OF_THE_BATCH for change in changes)):
            continue
        if tier == "expansion" and kind == "lazy_adam" and any(change in MADE_DENSE for change in changes):
            continue  # TensorFlow's moves all rows by a dense gradient, which here is one of the rows of the batch
        count -= 1
        yield kind, changes, tier, choose.choice(["features", "tensors"]), choose.choice([None, "user", "item"])


def sweep(count, seed, folder):
    """How many of random compositions were refused."""
    return twin_programs.refused(random_compositions(count, seed), lambda kind, changes, tier, mode, only: check(
        kind, changes, tier, mode, folder, only))


def test_random_compositions_train_as_in_tensorflow_or_are_refused(tmp_path):
    assert 0 < sweep(6, 5, tmp_path) < 6


@pytest.mark.long
@pytest.mark.timeout_s(1800)
@pytest.mark.parametrize("seed", range(10))
def test_many_random_compositions_train_as_in_tensorflow_or_are_refused(seed, tmp_path):
    assert 0 < sweep(50, 100 + seed, tmp_path) < 50
