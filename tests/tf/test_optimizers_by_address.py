"""Optimizers by address: pairs are (gradient of local rows, handles); state lies in the rows."""
import functools

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf.graph.gradient_state import GradientState
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import optimizer_slots
from mx_rec.core.asc import FeatureSpec, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers import adagrad_by_addr, gradient_descent_by_addr
from tests.tf import formulas, programs

KEYS, DIM, STEPS = 8, 2, 6
RANDOM = np.random.RandomState(5)
#: Sums of small multiples of a power of two are exact, so nothing depends on their order.
SOURCE = [{"ids": RANDOM.randint(0, KEYS, 7), "gradients": np.float32(RANDOM.randint(-8, 9, (7, DIM)) / 8)}
          for _ in range(STEPS)]
SGD = functools.partial(programs.optimizer, "gradient_descent", 0.5)


@pytest.fixture(autouse=True)
def expansion():
    with programs.ascpipe(use_dynamic_expansion=True):
        yield


class Lookup:
    """A table of ones, whose loss has the gradients of the batch.

    Args:
        differentiated: whether the program asks for the gradient.

    Attributes:
        gradient: of the local rows, or None.
        handles: what an optimizer is given with it.
    """

    def __init__(self, name="ids", *, differentiated=True, **kwargs):
        self.table = create_table(tf.int64, DIM, name, tf.compat.v1.ones_initializer(), **kwargs)
        self._iterators = []
        rows, batch = self._look_up(SOURCE, training=True)
        local, handles = programs.trained()
        self.local, self.handles = local[-1], handles[-1]
        loss = tf.reduce_sum(rows * batch["gradients"])
        self.gradient = tf.gradients(loss, self.local)[0] if differentiated else None
        self._read, _ = self._look_up([{"ids": np.arange(KEYS)}] * (STEPS + 1), training=False)

    def _look_up(self, source, training):
        spec = FeatureSpec(self.table.table_name, index_key="ids")
        iterator, batch = programs.insert(source, [spec], training=training)
        self._iterators.append(iterator)
        return sparse_lookup(self.table, spec, is_train=training, batch=batch), batch

    def start(self, run):
        run.run([*(iterator.initializer for iterator in self._iterators), tf.compat.v1.global_variables_initializer()])

    def rows(self, run):
        """float32[KEYS, DIM]; zeros of keys without a row."""
        return run.run(self._read)


def adagrad_model(rows, accumulators, gradient, rate):
    formulas.adagrad_by_address([rows, accumulators], gradient, rate)


def descent_model(rows, accumulators, gradient, rate):
    formulas.gradient_descent([rows], gradient, rate, np.float32(0.01))


FORMULAS = {
    "adagrad": (functools.partial(adagrad_by_addr.create_hash_optimizer_by_address, initial_accumulator_value=0.5),
                adagrad_model),
    "gradient_descent": (functools.partial(gradient_descent_by_addr.create_hash_optimizer_by_addr, weight_decay=0.01),
                         descent_model)}
KINDS = {
    "unique": (lambda gradient: gradient, 1), "dense": (tf.convert_to_tensor, 1),
    "repeated": (lambda gradient: tf.IndexedSlices(
        tf.concat([gradient.values] * 3, axis=0), tf.concat([gradient.indices] * 3, axis=0)), 3)}


@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.each_value
def test_rows_follow_the_formula_whatever_a_gradient_is_made_of_with_a_rate_read_at_each_step(name, kind):
    (create, model), (convert, times) = FORMULAS[name], KINDS[kind]
    lookup, rate = Lookup(), tf.compat.v1.placeholder(tf.float32, [])
    train = create(rate).apply_gradients([(convert(lookup.gradient), lookup.handles)])
    start_asc_pipeline()
    rows, accumulators = np.ones((KEYS, DIM), np.float32), np.full((KEYS, DIM), 0.5, np.float32)
    with programs.session() as run:
        lookup.start(run)
        for step, batch in enumerate(SOURCE):
            now = np.float32(0.5 / (1 + step))
            run.run(train, {rate: now})
            gradient = np.zeros((KEYS, DIM), np.float32)
            np.add.at(gradient, batch["ids"], times * batch["gradients"])
            keys = np.unique(batch["ids"])
            changed, states = rows[keys], accumulators[keys]
            model(changed, states, gradient[keys], now)
            rows[keys], accumulators[keys] = changed, states
        assert set(np.concatenate([batch["ids"] for batch in SOURCE])) == set(range(KEYS))
        np.testing.assert_array_equal(lookup.rows(run), rows)


@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_padding_keys_are_not_changed_by_any_gradient(kind):
    lookup = Lookup(padding_keys=[2, 3], padding_keys_mask=True, padding_keys_len=1)
    create, _ = FORMULAS["gradient_descent"]
    train = create(0.5).apply_gradients([(KINDS[kind][0](lookup.gradient), lookup.handles)])
    start_asc_pipeline()
    with programs.session() as run:
        lookup.start(run)
        for _ in SOURCE:
            run.run(train)
        assert ((lookup.rows(run) == 1).all(axis=1) == [key in (2, 3) for key in range(KEYS)]).all()


def test_a_gradient_that_is_none_changes_nothing_and_the_global_step_counts():
    tables = [Lookup("user", differentiated=False), Lookup("item")]
    step = tf.compat.v1.train.get_or_create_global_step()
    train = SGD().apply_gradients([(table.gradient, table.handles) for table in tables], step)
    assert tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.TRAIN_OP) == [train]
    start_asc_pipeline()
    with programs.session() as run:
        for table in tables:
            table.start(run)
        for expected in (1, 2, 3):
            run.run([train, tables[0].local])
            assert run.run(step) == expected
        assert set(np.unique(tables[0].rows(run))) <= {0, 1}
        assert len(np.unique(tables[1].rows(run))) > 3


@pytest.mark.parametrize("name, initial", [
    ("adagrad", {"Adagrad_accumulator": 0.9}), ("gradient_descent", {}),
    ("lazy_adam", {"LazyAdam_momentum": 0.0, "LazyAdam_velocity": 0.0})])
def test_state_lies_beside_the_embedding_and_begins_with_a_known_value(name, initial):
    lookup = Lookup()
    optimizer = programs.optimizer(name, 0.1)
    for _ in range(2):
        optimizer.apply_gradients([(lookup.gradient, tf.identity(lookup.handles))])
    state = GraphState.of(tf.compat.v1.get_default_graph())
    assert optimizer_slots(lookup.table, GradientState.of(state).home_slots) == [
        (slot, DIM, value, None) for slot, value in initial.items()]
    assert not [variable for variable in tf.compat.v1.global_variables() if variable.shape.rank == 2
                and variable is not lookup.table.variable]


class TestErrors:
    def test_what_is_no_handles_is_refused(self):
        lookup = Lookup()
        for other in (lookup.local, lookup.table.variable, tf.constant([1], tf.int64), lookup.handles.op.outputs[1]):
            with pytest.raises(ValueError, match="are not handles"):
                SGD().apply_gradients([(lookup.gradient, other)])

    def test_minimize_with_what_is_no_handles_says_what_to_do(self):
        lookup = Lookup()
        with pytest.raises(ValueError, match="tf.gradients"):
            SGD().minimize(tf.reduce_sum(lookup.local), var_list=[lookup.local])

    def test_a_table_is_updated_by_one_optimizer_and_in_one_pair(self):
        lookup = Lookup()
        pair = (lookup.gradient, lookup.handles)
        with pytest.raises(ValueError, match="E270: Optimizer .* got two gradients of table 'ids'"):
            SGD().apply_gradients([pair, pair])
        SGD(name="Mine").apply_gradients([pair])
        with pytest.raises(ValueError, match="'ids' cannot be updated by optimizer 'Other_0'.*'Mine_0' already "
                           "updates it"):
            SGD(name="Other").apply_gradients([pair])

    def test_no_gradient_at_all_is_refused(self):
        with pytest.raises(ValueError, match="No gradients"):
            SGD().apply_gradients([(None, Lookup().handles)])

    def test_after_the_start_rows_have_no_place_for_more_state(self):
        lookup = Lookup()
        programs.start()
        with pytest.raises(RuntimeError, match="'ids'.*before the first run of a session"):
            SGD().apply_gradients([(lookup.gradient, lookup.handles)])
