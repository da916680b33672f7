"""Optimizers of TensorFlow that are given tables, and tables that shall stay as they are."""
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import twin_programs
from tests.tf.twin_programs import RATE, contrib, require_equal_or_refused
from tests.tf.ways_to_train import (
    by_both,
    by_layers_alone,
    check,
    left_in_place,
    minimize,
    name_of,
    of_tensorflow,
    without_tables,
)

v1 = tf.compat.v1
pytestmark = pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")

IN_PLACE = {
    "momentum": lambda: v1.train.MomentumOptimizer(RATE, 0.9), "rmsprop": lambda: v1.train.RMSPropOptimizer(RATE),
    "centered rmsprop": lambda: v1.train.RMSPropOptimizer(RATE, centered=True),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(RATE),
    "proximal gradient descent": lambda: v1.train.ProximalGradientDescentOptimizer(RATE),
    "proximal adagrad": lambda: v1.train.ProximalAdagradOptimizer(RATE),
    "lazy_adam": lambda: contrib("opt").LazyAdamOptimizer(RATE),
    "adamax": lambda: contrib("opt").AdaMaxOptimizer(RATE),
}
MOVE_ALL = {"nadam": lambda: contrib("opt").NadamOptimizer(RATE),
            "adam with decay": lambda: contrib("opt").AdamWOptimizer(0.01, RATE)}


@pytest.mark.parametrize("tier, make", [
    pytest.param(tier, make, marks=[] if (tier, name) in (("host", "momentum"), ("device", "rmsprop"))
                 else pytest.mark.long, id="{}-{}".format(tier, name))
    for name, make in IN_PLACE.items() for tier in ("device", "host")])
def test_an_optimizer_that_moves_the_rows_of_the_batch_trains_tables_that_it_is_given(make, tier):
    assert not require_equal_or_refused(twin_programs.ours(of_tensorflow(make), tier),
                                        twin_programs.plain(of_tensorflow(make)))


@pytest.mark.parametrize("name", ["adamax", "lazy_adam"])
def test_one_optimizer_for_variables_and_tables_counts_each_step_once(name):
    def train(model):
        optimizer = IN_PLACE[name]()
        return (asc.Optimizer(dense=optimizer, sparse=optimizer) if model.is_ours else optimizer).minimize(model.loss)

    assert not require_equal_or_refused(twin_programs.ours(train, "host"), twin_programs.plain(train))


@pytest.mark.parametrize("make", MOVE_ALL.values(), ids=list(MOVE_ALL))
def test_an_optimizer_that_moves_all_rows_is_refused(make):
    found = twin_programs.ours(of_tensorflow(make), "host")
    assert require_equal_or_refused(found, None)
    assert found.error.code == "E253"
    assert "This optimizer updates all rows in each step" in str(found.error)


@pytest.mark.parametrize("tier", ["host", "expansion"])
def test_adam_trains_tables_that_it_is_given_as_lazy_adam_and_a_line_says_so(tier, caplog):
    found = twin_programs.ours(of_tensorflow(lambda: v1.train.AdamOptimizer(RATE)), tier)
    assert caplog.text.count("for tables it updates only the rows of a batch, like LazyAdam") == 1

    def train(model):  # the other variables are Adam's, which moves all their numbers in either case
        return contrib("opt").LazyAdamOptimizer(RATE).minimize(model.loss)

    assert not require_equal_or_refused(found, twin_programs.plain(train))


def test_an_optimizer_without_a_form_is_refused_where_tables_grow():
    found = twin_programs.ours(of_tensorflow(IN_PLACE["momentum"]), "expansion")
    assert require_equal_or_refused(found, None)
    assert "MomentumOptimizer has no form for tables" in str(found.error)


# ---- tables that shall stay as they are

@pytest.mark.parametrize("way", [minimize, left_in_place, without_tables, by_layers_alone], ids=name_of)
@pytest.mark.parametrize("freeze", twin_programs.FREEZES)
@pytest.mark.each_value
def test_a_table_that_is_frozen_stays_as_it_began(freeze, way):
    frozen = {"user": freeze, "item": freeze} if way is not minimize else {"item": freeze}
    assert check(way, "gradient_descent", "host", "tensors", ".", frozen) is None


@pytest.mark.parametrize("way, tier", [(minimize, "host"), (by_both, "expansion")])
def test_a_frozen_table_of_features_stays_as_it_began(way, tier):
    assert check(way, "adagrad", tier, "features", ".", {"item": "trainable=False"}) is None


def test_a_table_that_no_loss_reaches_stays_as_it_began():
    def train(kind):
        return lambda model: model.optimizer(kind).minimize(model.loss_of(model.of_users))

    assert check(train, "adagrad", "host", "tensors", ".") is None


def test_a_table_whose_rows_are_only_counted_stays_as_it_began():
    def train(kind):
        def of_loss(model):
            count = tf.cast(tf.argmax(model.rows["item"], axis=1), tf.float32)
            return model.optimizer(kind).minimize(
                model.loss_of(model.of_users) + tf.reduce_sum(count), var_list=[
                    *v1.trainable_variables("dense"), model.variables()[0]])
        return of_loss

    assert check(train, "adagrad", "device", "features", ".") is None


@pytest.mark.parametrize("mode", ["tensors", "features"])
@pytest.mark.parametrize("op", [
    lambda model: tf.no_op(), lambda model: tf.gradients(model.loss, list(model.rows.values())),
    lambda model: tf.gradients(model.loss, v1.trainable_variables())], ids=["", "of rows", "of variables"])
@pytest.mark.each_value
def test_a_program_without_an_optimizer_may_look_at_rows(op, mode):
    assert not require_equal_or_refused(twin_programs.ours(op, mode=mode), twin_programs.plain(op))
