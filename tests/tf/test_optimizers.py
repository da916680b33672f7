"""Each optimizer against TensorFlow's own; the ops alone are in ``test_ops_apply.py``."""

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.layout.words import TRAIN
from ascpipe.tf.api import installing
from ascpipe.tf.graph.features import Feature, FeatureSpec, Stream
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import slot_variables
from ascpipe.tf.graph.table_lookup import TableLookup
from ascpipe.tf.optimizers import adagrad, ftrl, gradient_descent, lazy_adam
from ascpipe.tf.optimizers.base import has_unique_indices
from ascpipe.tf.program.create_table import create_table
from ascpipe.tf.running.process import init, terminate_config_initializer
from tests.support.contrib import contrib

ROWS, DIM, STEPS = 20, 3, 6


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        init()
        installing.install()
        yield graph
        terminate_config_initializer()


def contrib_lazy_adam(rate):
    return contrib("opt").LazyAdamOptimizer(rate, beta1=0.8, beta2=0.99, epsilon=1e-6)


#: TensorFlow takes the elements of rows that do not fill a vector register one by one, with exact roots as ours.
PEERS = {
    "adagrad": (lambda rate: adagrad.create_hash_optimizer(rate, initial_accumulator_value=0.5),
                lambda rate: tf.compat.v1.train.AdagradOptimizer(rate, initial_accumulator_value=0.5)),
    "gradient_descent": (gradient_descent.create_hash_optimizer, tf.compat.v1.train.GradientDescentOptimizer),
    "ftrl": (lambda rate: ftrl.create_hash_optimizer(rate, l1_regularization_strength=0.01,
                                                     l2_regularization_strength=0.02),
             lambda rate: tf.compat.v1.train.FtrlOptimizer(rate, l1_regularization_strength=0.01,
                                                           l2_regularization_strength=0.02)),
    "ftrl with shrinkage": (
        lambda rate: ftrl.create_hash_optimizer(rate, l2_shrinkage_regularization_strength=0.1),
        lambda rate: tf.compat.v1.train.FtrlOptimizer(rate, l2_shrinkage_regularization_strength=0.1)),
}


def train(optimizer, rate, gradients):
    """The values of a plain variable after each step."""
    start = np.random.RandomState(3).randn(ROWS, DIM).astype(np.float32)
    variable = tf.compat.v1.Variable(start, use_resource=False)
    indices = tf.compat.v1.placeholder(tf.int32, [None])
    values = tf.compat.v1.placeholder(tf.float32, [None, DIM])
    step = optimizer.apply_gradients([(tf.IndexedSlices(values, indices, tf.constant([ROWS, DIM])), variable)])
    seen = []
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        for number, (i, v) in enumerate(gradients):
            session.run(step, {indices: i, values: v, rate: 0.5 / (1 + number)})
            seen.append(session.run(variable))
    return seen


def random_gradients(unique):
    random = np.random.RandomState(7)
    for _ in range(STEPS):
        indices = random.permutation(ROWS)[:7] if unique else random.randint(0, 5, 7)
        yield indices.astype(np.int32), random.randn(7, DIM).astype(np.float32)


@pytest.mark.parametrize("unique", [True, False], ids=["unique rows", "repeated rows"])
@pytest.mark.parametrize("name", PEERS)
@pytest.mark.each_value
def test_equals_tensorflows_own_bit_by_bit_with_a_learning_rate_read_at_each_step(name, unique):
    ours, theirs = PEERS[name]
    rate = tf.compat.v1.placeholder_with_default(np.float32(0.1), [])
    for mine, expected in zip(train(ours(rate), rate, random_gradients(unique)),
                              train(theirs(rate), rate, random_gradients(unique))):
        np.testing.assert_array_equal(mine, expected)


@pytest.mark.parametrize("unique", [True, False], ids=["unique rows", "repeated rows"])
def test_lazy_adam_differs_from_tensorflows_own_by_the_roots_that_tensorflow_approximates(unique):
    rate = tf.compat.v1.placeholder_with_default(np.float32(0.1), [])
    ours = lazy_adam.create_hash_optimizer(rate, beta1=0.8, beta2=0.99, epsilon=1e-6)
    for mine, expected in zip(train(ours, rate, random_gradients(unique)),
                              train(contrib_lazy_adam(rate), rate, random_gradients(unique))):
        np.testing.assert_allclose(mine, expected, rtol=1e-6, atol=1e-7)


def test_weight_decay_adds_a_part_of_the_row_once():
    rate = tf.compat.v1.placeholder_with_default(np.float32(0.1), [])
    optimizer = gradient_descent.create_hash_optimizer(rate, weight_decay=0.01)
    gradients = [(np.array([4, 4], np.int32), np.ones([2, DIM], np.float32))]
    start = np.random.RandomState(3).randn(ROWS, DIM).astype(np.float32)
    (after,) = train(optimizer, rate, gradients)
    expected = start.copy()
    expected[4] -= 0.5 * (2.0 + 0.01 * start[4])
    np.testing.assert_allclose(after, expected, rtol=1e-6)


# ---- tables --------------------------------------------------------------------------------------------------


def table(name="user", dim=4):
    return create_table(key_dtype=tf.int64, dim=dim, name=name, emb_initializer=tf.compat.v1.zeros_initializer(),
                        device_vocabulary_size=50)


def gradient_of_a_lookup(table, gated=False):
    """The gradient of a table, as its lookup gives it."""
    state = GraphState.of(tf.compat.v1.get_default_graph())
    stream = Stream(0, TRAIN, [Feature(FeatureSpec("ids", table_name=table.table_name), tf.TensorShape([None]))])
    if (table.table_name, TRAIN) not in state.lookups:
        state.lookups[table.table_name, TRAIN] = TableLookup(table, TRAIN, stream, tf.zeros([], tf.int64))
    lookup = state.lookups[table.table_name, TRAIN]
    lookup.note_gradient(lookup.specs[0])
    (gradient,) = tf.gradients(tf.reduce_sum(lookup.embedding(lookup.specs[0], None, None)), [table.variable])
    indices = tf.identity(tf.stop_gradient(gradient.indices)) if gated else gradient.indices
    return tf.IndexedSlices(gradient.values, indices, gradient.dense_shape)


@pytest.mark.parametrize("module, expected", [
    (adagrad, {"user/Mine_0/accumulator": 0.9}), (gradient_descent, {}),
    (ftrl, {"user/Mine_0/accum": 0.1, "user/Mine_0/linear": 0.0}),
    (lazy_adam, {"user/Mine_0/momentum": 0.0, "user/Mine_0/velocity": 0.0})])
def test_state_is_in_slot_variables_whose_first_value_is_known(module, expected):
    user = table()

    def getter(getter, *args, **kwargs):
        raise AssertionError("a custom getter met a slot variable of a table")

    with tf.compat.v1.variable_scope("model", custom_getter=getter, use_resource=True):
        module.create_hash_optimizer(0.1, name="Mine").apply_gradients([(gradient_of_a_lookup(user), user.variable)])
    found = slot_variables(user)
    assert {slot.variable.op.name: slot.initial for slot in found} == pytest.approx(expected)
    assert all(slot.variable.op.type == "VariableV2" for slot in found)


@pytest.mark.parametrize("create, initials", [
    (tf.compat.v1.train.AdagradOptimizer, [0.1]), (tf.compat.v1.train.FtrlOptimizer, [0.1, 0.0]),
    (lambda rate: tf.compat.v1.train.MomentumOptimizer(rate, 0.9), [0.0]),
    (tf.compat.v1.train.RMSPropOptimizer, [1.0, 0.0])])
def test_slots_of_tensorflows_optimizers_are_found_and_their_first_values_derived(create, initials):
    user, item = table(), table("user_item")
    with tf.compat.v1.variable_scope("model"):
        create(0.1).apply_gradients([(gradient_of_a_lookup(t), t.variable) for t in (user, item)])
    for one in (user, item):
        found = slot_variables(one)
        assert [slot.initial for slot in found] == pytest.approx(initials)
        assert all("/{}/".format(one.table_name) in slot.variable.op.name for slot in found)


def test_a_slot_that_begins_with_random_values_is_refused():
    class Noisy(tf.compat.v1.train.GradientDescentOptimizer):
        def _create_slots(self, var_list):
            for variable in var_list:
                self._get_or_make_slot(variable, tf.random.normal([50, 4]), "noise", self._name)

    user = table()
    Noisy(0.1, name="noise").apply_gradients([(gradient_of_a_lookup(user), user.variable)])
    with pytest.raises(ValueError, match="user/noise"):
        slot_variables(user)


def test_the_gradient_of_lookups_is_not_summed_again():
    user = table()
    assert has_unique_indices(gradient_of_a_lookup(user))
    assert has_unique_indices(gradient_of_a_lookup(user, gated=True))
    assert not has_unique_indices(tf.IndexedSlices(tf.zeros([1, 4]), tf.constant([1]), tf.constant([50, 4])))
    before = len(tf.compat.v1.get_default_graph().get_operations())
    adagrad.create_hash_optimizer(0.1).apply_gradients([(gradient_of_a_lookup(user), user.variable)])
    added = {op.type for op in tf.compat.v1.get_default_graph().get_operations()[before:]}
    assert "AscApplyAdagrad" in added
    assert not added & {"Unique", "UnsortedSegmentSum"}


def test_a_program_may_override_how_a_table_is_updated():
    class Halving(lazy_adam.CustomizedLazyAdam):
        def _apply_sparse_duplicate_indices(self, grad, var):
            delta = -0.5 * tf.gather(var, grad.indices)
            return tf.group(tf.compat.v1.scatter_nd_add(var, grad.indices[:, None], delta),
                            super()._apply_sparse_duplicate_indices(grad, var))

    user = table()
    optimizer = Halving(0.1)
    optimizer.apply_gradients([(gradient_of_a_lookup(user), user.variable)])
    assert len(slot_variables(user)) == 2
    assert optimizer.get_slot(user.variable, "momentum") is optimizer.get_slot(user.variable, "m")
    assert optimizer.get_slot(user.variable, "velocity") is optimizer.get_slot(user.variable, "v")
