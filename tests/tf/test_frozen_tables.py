"""Tables that a program excludes from training: ``create_table(..., trainable=False)`` and ``Table.freeze``."""
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


def random_rows():
    return tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11)


def trained(create, optimizer, sizes, var_list=lambda: None):
    """Losses; rows of the frozen and of the trained table; the frozen table changes by ``assign`` only."""
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
                losses = [run.run([loss, train])[0]]
                first = [table.read(KEYS) for table in (user, item)]
                losses.extend(run.run([loss, train])[0] for _ in SOURCE[2:])
                last = [table.read(KEYS) for table in (user, item)]
                changed = [KEYS[0], 1 << 40]
                user.assign(changed, np.full([2, programs.DIM], 7.0))
                run.run([loss, train])
                assert (user.read(changed).rows == 7.0).all()
                return losses, first, last
        finally:
            asc.shutdown()


@pytest.mark.parametrize("optimizer, tier", [
    *(("Adagrad", tier) for tier in TIERS), *((name, "host") for name in OPTIMIZERS if name != "Adagrad")])
def test_rows_of_a_frozen_table_keep_their_values_while_the_model_trains(optimizer, tier):
    variables = tables_and_variables if optimizer == "TensorFlow" else lambda: None
    losses, first, last = trained(frozen_by_argument, OPTIMIZERS[optimizer], TIERS[tier], variables)
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
            with pytest.raises(CallOrderError, match="'item' cannot be frozen, .* already trains it. The"):
                other.freeze()
            assert not table.trainable and other.trainable
        finally:
            asc.shutdown()


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
