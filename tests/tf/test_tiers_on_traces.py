"""Where rows live is invisible: any device size gives the losses and rows of a table on the device alone, bit by bit.

Generated clicks, real clicks and ratings, one TensorFlow thread, gated gradients.
"""
import functools

import numpy as np
import pytest
import tensorflow as tf

from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from tests.support import traces
from tests.tf import programs

DIM = 4
STEPS = 40
BATCH_ROWS = {traces.GENERATED: 64, "criteo": 64, "movielens": 512, "talkingdata": 256}
SHARES = (0.0, 0.1, 0.3, 1.0)  #: of the keys that the device holds; at least those of one batch
OPTIMIZERS = {name: functools.partial(programs.optimizer, name, rate) for name, rate in {
    "adagrad": 0.2, "ftrl": 0.2, "gradient_descent": 0.2, "lazy_adam": 0.05}.items()}


class Trace:
    """The first batches of a trace, with labels that its keys explain in part."""

    def __init__(self, name):
        size = BATCH_ROWS[name]
        keys = traces.read(name)
        keys = np.concatenate([keys] * (-(-size * STEPS // len(keys))))[:size * STEPS]
        labels = (keys.sum(axis=1) % 3 == 0).astype(np.float32)
        self.batches = [{"ids": keys[i:i + size], "label": labels[i:i + size]} for i in range(0, len(keys), size)]
        self.distinct = np.unique(keys)
        self.largest_batch = max(len(np.unique(batch["ids"])) for batch in self.batches)

    def device_rows(self, share):
        return max(self.largest_batch, int(share * len(self.distinct)))


def train(trace, optimizer, device_rows=1, host_rows=0, expansion=False):
    """float32 losses of every step, and the rows of all keys at the end."""
    everything = [{"ids": trace.distinct[:, None], "label": np.zeros(len(trace.distinct), np.float32)}]
    with programs.ascpipe(use_dynamic_expansion=expansion):
        table = create_table(
            tf.int64, DIM, "ids", tf.compat.v1.random_normal_initializer(stddev=0.1, seed=5),
            device_vocabulary_size=device_rows, host_vocabulary_size=host_rows)
        iterator, rows, label = _lookup(table, trace.batches, training=True)
        logits = tf.reduce_sum(rows, axis=[1, 2])
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))
        trained_rows, (target,) = programs.trained(table)
        gradient, gated_loss = tf.tuple([tf.gradients(loss, trained_rows)[0], loss])
        step = optimizer().apply_gradients([(gradient, target)])
        eval_iterator, eval_rows, _ = _lookup(table, everything, training=False)
        start_asc_pipeline()
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            losses = [run.run([gated_loss, step])[0] for _ in trace.batches]
            run.run(eval_iterator.initializer)
            final = run.run(eval_rows)
            assert table.size() == len(trace.distinct)
        return np.array(losses, np.float32), final


def _lookup(table, batches, training):
    spec = FeatureSpec("ids", table_name="ids", index_key="ids")
    data = programs.dataset(batches).map(get_asc_insert_func([spec], is_training=training)).prefetch(40)
    iterator = tf.compat.v1.data.make_initializable_iterator(data)
    batch = iterator.get_next()
    return iterator, sparse_lookup(table, spec, is_train=training, batch=batch), batch["label"]


def assert_every_tier_trains_the_same(name, optimizer, shares):
    trace = Trace(name)
    assert len(trace.distinct) > 1.5 * trace.largest_batch  # or nothing would have to move
    losses, rows = train(trace, OPTIMIZERS[optimizer], len(trace.distinct), 0)
    assert len(np.unique(losses)) > STEPS // 2  # rows are updated, so there is something to get wrong
    for share in shares:
        assert_same((losses, rows), train(
            trace, OPTIMIZERS[optimizer], trace.device_rows(share), len(trace.distinct)))
    if optimizer in ("gradient_descent", "lazy_adam"):  # the others have formulas of their own by address
        assert_same((losses, rows), train(trace, OPTIMIZERS[optimizer], expansion=True))


def assert_same(expected, found):
    for one, other in zip(expected, found):
        np.testing.assert_array_equal(other.view(np.uint32), one.view(np.uint32))


@pytest.mark.timeout_s(150)
@pytest.mark.parametrize("name, optimizer", [
    (traces.GENERATED, "lazy_adam"), ("movielens", "adagrad"), ("talkingdata", "ftrl"),
    *(pytest.param(*case, marks=pytest.mark.long) for case in [
        (traces.GENERATED, "ftrl"), ("criteo", "lazy_adam"), ("talkingdata", "gradient_descent")])])
def test_a_device_of_one_batch_trains_what_a_device_of_all_keys_trains(name, optimizer):
    assert_every_tier_trains_the_same(name, optimizer, shares=(0.0,))


@pytest.mark.long
@pytest.mark.timeout_s(300)
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
@pytest.mark.parametrize("name", sorted(BATCH_ROWS))
def test_any_device_size_trains_what_a_device_of_all_keys_trains(name, optimizer):
    assert_every_tier_trains_the_same(name, optimizer, SHARES)
