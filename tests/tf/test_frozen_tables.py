"""Tables that a program excludes from training: ``create_table(..., trainable=False)`` and ``Table.freeze``."""
import contextlib

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import CallOrderError
from tests.support.on_disk import on_disk
from tests.tf import programs

SOURCE = programs.batches(8)
KEYS = np.unique(np.concatenate([batch[name].ravel() for batch in SOURCE for name in "abc"]))
TIERS = {"device": {"device_vocabulary_size": 100},
         "host": {"device_vocabulary_size": 40, "host_vocabulary_size": 200},
         "disk": on_disk(40, 80), "expansion": {}}
OPTIMIZERS = {
    "Adagrad": lambda: asc.optimizers.Adagrad(0.5), "Ftrl": lambda: asc.optimizers.Ftrl(0.5),
    "LazyAdam": lambda: asc.optimizers.LazyAdam(0.5), "TensorFlow": lambda: tf.compat.v1.train.AdagradOptimizer(0.5),
    "two": lambda: asc.Optimizer(dense=tf.compat.v1.train.AdamOptimizer(0.1), sparse=asc.optimizers.Adagrad(0.5))}


def frozen_by_argument(sizes):
    return asc.create_table("user", programs.DIM, initializer=random_rows(), trainable=False, **sizes), {}


def frozen_by_call(sizes):
    table = asc.create_table("user", programs.DIM, initializer=random_rows(), **sizes)
    table.freeze()
    return table, {}


def frozen_by_lookups(sizes):
    return asc.create_table("user", programs.DIM, initializer=random_rows(), **sizes), {"trainable": False}


def tables_and_variables():
    return [*tf.compat.v1.trainable_variables(), *asc.table_variables()]


def variables_for(optimizer):
    return tables_and_variables if optimizer == "TensorFlow" else lambda: None


def random_rows():
    return tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11)


@contextlib.contextmanager
def started(create, optimizer, sizes, var_list=lambda: None):
    """A running program: a function that trains a batch and returns its loss, and the tables user and item."""
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(1)
        asc.init(use_dynamic_expansion=not sizes)
        try:
            user, arguments = create(sizes)
            item = asc.create_table("item", programs.DIM, initializer=random_rows(), **sizes)
            features = programs.specs()
            data = programs.dataset(SOURCE).map(asc.insert_function(features))
            iterator = tf.compat.v1.data.make_initializable_iterator(data.prefetch(4))
            batch = iterator.get_next()
            rows = [asc.sparse_lookup(table, spec, batch=batch, **(arguments if table is user else {}))
                    for table, spec in zip((user, user, item), features)]
            loss = programs.model(rows, batch["label"])
            train = optimizer().minimize(loss, var_list=var_list())
            asc.start()
            with programs.session() as run:
                run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
                yield lambda: run.run([loss, train])[0], user, item
        finally:
            asc.shutdown()


def trained(*arguments):
    """Losses; rows of the frozen and of the trained table; the frozen table changes by ``assign`` only."""
    with started(*arguments) as (step, user, item):
        losses = [step()]
        first = [table.read(KEYS) for table in (user, item)]
        losses.extend(step() for _ in SOURCE[2:])
        last = [table.read(KEYS) for table in (user, item)]
        changed = [KEYS[0], 1 << 40]
        user.assign(changed, np.full([2, programs.DIM], 7.0))
        step()
        assert (user.read(changed).rows == 7.0).all()
        return losses, first, last


@pytest.mark.parametrize("optimizer, tier", [
    *(("Adagrad", tier) for tier in TIERS), *((name, "host") for name in OPTIMIZERS if name != "Adagrad")])
def test_rows_of_a_frozen_table_keep_their_values_while_the_model_trains(optimizer, tier):
    losses, first, last = trained(frozen_by_argument, OPTIMIZERS[optimizer], TIERS[tier], variables_for(optimizer))
    if optimizer != "TensorFlow":
        assert losses == trained(frozen_by_lookups, OPTIMIZERS[optimizer], TIERS[tier])[0]
    (frozen, moving), (still, moved) = first, last
    np.testing.assert_array_equal(still.rows[frozen.found], frozen.rows[frozen.found])
    assert frozen.found.any() and still.found.sum() > frozen.found.sum()  # new keys get rows
    assert (moved.rows[moving.found] != moving.rows[moving.found]).any()


def test_a_table_is_frozen_by_a_call_before_its_first_lookup():
    losses, _, last = trained(frozen_by_call, OPTIMIZERS["Adagrad"], TIERS["device"])
    again, _, others = trained(frozen_by_argument, OPTIMIZERS["Adagrad"], TIERS["device"],
                               tables_and_variables)
    assert losses == again
    np.testing.assert_array_equal(last[0].rows, others[0].rows)


def test_a_table_with_a_trained_lookup_is_not_frozen():
    with tf.Graph().as_default():
        asc.init()
        try:
            table = asc.create_table("user", 2, initializer=random_rows(), device_vocabulary_size=10)
            ids = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors([1])).get_next()
            asc.sparse_lookup(table, ids, trainable=False)
            table.freeze()
            table.freeze()
            other = asc.create_table("item", 2, initializer=random_rows(), device_vocabulary_size=10)
            asc.sparse_lookup(other, ids, training=False)
            asc.sparse_lookup(other, ids)
            with pytest.raises(CallOrderError, match="cannot be frozen yet, because a lookup of this graph trains it"):
                other.freeze()
            for table_to_unfreeze, reason in ((other, "no session has run"), (table, "built without gradients")):
                with pytest.raises(CallOrderError, match="cannot be unfrozen, because .*{}".format(reason)):
                    table_to_unfreeze.unfreeze()
            assert not table.trainable and other.trainable
        finally:
            asc.shutdown()


@pytest.mark.parametrize("optimizer, tier", [
    *(("Adagrad", tier) for tier in TIERS), *((name, "host") for name in OPTIMIZERS if name != "Adagrad")])
def test_a_table_is_frozen_between_two_steps_while_batches_are_read_ahead(optimizer, tier):
    first = np.unique(np.concatenate([SOURCE[0][name].ravel() for name in "ab"]))
    last = np.unique(np.concatenate([SOURCE[step][name].ravel() for step in (3, 4) for name in "ab"]))
    with started(lambda sizes: (asc.create_table("user", programs.DIM, initializer=random_rows(), **sizes), {}),
                 OPTIMIZERS[optimizer], TIERS[tier], variables_for(optimizer)) as (step, user, item):
        step()
        trained = user.read(KEYS)
        user.freeze()
        step()
        step()
        frozen = user.read(KEYS)
        require_equal(frozen, trained, trained.found)
        assert frozen.found.sum() > trained.found.sum()  # new keys get rows
        moved = item.read(KEYS)
        user.unfreeze()
        step()
        step()
        again = user.read(KEYS)
        assert again.found[np.isin(KEYS, last)].all()
        both = np.isin(KEYS, np.intersect1d(first, last))
        assert (again.rows[both] != frozen.rows[both]).any() and (item.read(KEYS).rows != moved.rows).any()


def require_equal(found, expected, which):
    """Rows and optimizer slots of some keys have the same bits."""
    np.testing.assert_array_equal(found.found[which], expected.found[which])
    np.testing.assert_array_equal(found.rows[which], expected.rows[which])
    for name, values in expected.slots.items():
        np.testing.assert_array_equal(found.slots[name][which], values[which])


def test_a_frozen_table_of_an_accumulated_optimizer_keeps_its_rows():
    with started(lambda sizes: (asc.create_table("user", programs.DIM, initializer=random_rows(), **sizes), {}),
                 lambda: asc.optimizers.accumulate(asc.optimizers.Adagrad(0.5), 2), TIERS["device"]) as (step, user, _):
        step()
        step()
        before = user.read(KEYS)
        assert before.found.any()
        user.freeze()
        step()
        step()
        require_equal(user.read(KEYS), before, before.found)
        user.unfreeze()
        step()
        step()
        assert (user.read(KEYS).rows[before.found] != before.rows[before.found]).any()


def test_a_lookup_without_training_in_a_trained_model_gives_no_rows_to_new_keys():
    known = np.unique(SOURCE[-1]["a"])[:5]
    with tf.Graph().as_default():
        asc.init()
        try:
            user, item = (asc.create_table(name, programs.DIM, initializer=tf.compat.v1.ones_initializer(),
                                           device_vocabulary_size=100) for name in ("user", "item"))
            iterator = tf.compat.v1.data.make_initializable_iterator(programs.dataset(SOURCE).prefetch(4))
            batch = iterator.get_next()
            rows = [asc.sparse_lookup(user, batch[key] + 0, training=False) for key in "ab"]
            rows.append(asc.sparse_lookup(item, batch["c"] + 0))
            train = OPTIMIZERS["Adagrad"]().minimize(programs.model(rows, batch["label"]))
            asc.start()
            with programs.session() as run:
                run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
                user.assign(known, np.full([5, programs.DIM], 3.0))
                seen = [run.run([batch["a"], rows[0], train])[:2] for _ in SOURCE]
                assert user.size() == 5 and item.size() > 5
        finally:
            asc.shutdown()
    for keys, found in seen:
        is_known = np.isin(keys, known)
        assert (found[is_known] == 3.0).all() and (found[~is_known] == 1.0).all()  # the initial row
    assert np.isin(seen[-1][0], known).any()
