"""One training step of the click model in three forms: our tables, plain variables, TensorFlow's hash tables.

The model has 26 features from one table of 2,000,000 rows with 16 floats, 13 numbers, and an MLP 64-32-1. It uses
Adagrad, gated gradients and two threads. All sides get the same batches through tf.data. The plain model gets row
numbers and needs no hash table. The dynamic model keeps rows and accumulators as values of hash tables, like programs
with unknown keys.
"""
import contextlib
from typing import Any, Callable, Dict, Iterator, NamedTuple, Tuple

import numpy as np

from bench import workloads

ROWS = 2 * 10 ** 6
DIM = 16
NUMBERS = 13
BATCHES = 16
THREADS = 2
RATE = .05
UNITS = (64, 32)
ACCUMULATOR = .0001
RANGE = .05

Step = Callable[[], object]


class Variant(NamedTuple):
    """Variant of the training.

    Attributes:
        distribution: distribution of the ids, a name of ``workloads.DISTRIBUTIONS``.
        part: one in ``part`` rows fits on the device. With 1 all rows fit, and there are no host rows.
        prefetch: number of batches that every side reads before they are trained. More batches improve the choice of
            victims.
    """

    distribution: str
    part: int
    prefetch: int

    @property
    def lead(self) -> int:
        """Return the number of untimed steps of a turn. They consume the batches that were prepared before the turn."""
        return self.prefetch + 2

    @property
    def steps(self) -> int:
        """Return the number of timed steps of a turn. It exceeds the number of batches that are prepared at the end of
        the turn.
        """
        return workloads.sized(max(16, self.prefetch), 2)


VARIANTS = {
    "device": Variant("zipf-1.05", 1, 2), "cached": Variant("zipf-1.05", 10, 32),
    "device-zipf-1.2": Variant("zipf-1.2", 1, 2), "cached-zipf-1.2": Variant("zipf-1.2", 10, 32),
}


def rows() -> int:
    """Return the number of rows of the table."""
    return workloads.sized(ROWS, 60000)


def batches(variant: str) -> Dict[str, np.ndarray]:
    """Return several batches: "ids" int64[batches, rows, 26], "numbers" float32[batches, rows, 13], "labels"
    float32.
    """
    random = np.random.RandomState(1)
    stream = workloads.Zipf(rows(), workloads.DISTRIBUTIONS[VARIANTS[variant].distribution], seed=1)
    shape = (BATCHES, workloads.batch_rows())
    ranks = stream.ranks(shape[0] * shape[1] * workloads.FEATURES)
    return {"ids": random.permutation(rows())[ranks].reshape(shape + (workloads.FEATURES,)),
            "numbers": random.random_sample(shape + (NUMBERS,)).astype(np.float32),
            "labels": random.randint(0, 2, size=shape).astype(np.float32)}


@contextlib.contextmanager
def ascpipe(variant: str, drawn: Dict[str, np.ndarray]) -> Iterator[Step]:
    """Set up our tables with the public API."""
    from bench.sessions import running_pipeline, tf
    from mx_rec.core.asc.feature_spec import FeatureSpec
    from mx_rec.core.asc.helper import get_asc_insert_func
    from mx_rec.core.asc.manager import start_asc_pipeline
    from mx_rec.core.embedding import create_table, sparse_lookup
    from mx_rec.optimizers.adagrad import create_hash_optimizer
    from mx_rec.util.variable import get_dense_and_sparse_variable

    part = VARIANTS[variant].part
    with tf.Graph().as_default(), running_pipeline():
        table = create_table(key_dtype=tf.int64, dim=DIM, name="trained",
                             emb_initializer=tf.random_uniform_initializer(-RANGE, RANGE, seed=1),
                             device_vocabulary_size=rows() // part, host_vocabulary_size=rows() if part > 1 else 0)
        spec = FeatureSpec("ids", table_name="trained", index_key="ids")
        insert = get_asc_insert_func(tgt_key_specs=[spec], is_training=True)
        iterator, batch = _input(variant, drawn, lambda dataset: dataset.map(insert))
        embeddings = sparse_lookup(table, spec, batch=batch, is_train=True)
        loss = _loss(batch, embeddings)
        dense, sparse = get_dense_and_sparse_variable()
        pairs = _gradients(loss, [*dense, *sparse])
        update = [_dense_adagrad(pairs[:len(dense)]), create_hash_optimizer(
            RATE, initial_accumulator_value=ACCUMULATOR).apply_gradients(pairs[len(dense):])]
        start_asc_pipeline()
        with _session(iterator, loss, update) as step:
            yield step


@contextlib.contextmanager
def plain(variant: str, drawn: Dict[str, np.ndarray]) -> Iterator[Step]:
    """Set up a variable, ``embedding_lookup`` and TensorFlow's Adagrad. The whole table is in memory."""
    from bench.sessions import tf

    with tf.Graph().as_default():
        table = tf.get_variable("table", [rows(), DIM],
                                initializer=tf.random_uniform_initializer(-RANGE, RANGE, seed=1))
        iterator, batch = _input(variant, drawn)
        loss = _loss(batch, tf.nn.embedding_lookup(table, batch["ids"]))
        update = _dense_adagrad(_gradients(loss, tf.trainable_variables()))
        with _session(iterator, loss, [update]) as step:
            yield step


@contextlib.contextmanager
def dynamic(variant: str, drawn: Dict[str, np.ndarray]) -> Iterator[Step]:
    """Set up hash tables whose values are rows and accumulators. A step looks up the distinct ids and inserts
    changed values.
    """
    from bench.sessions import MutableHashTable, tf

    with tf.Graph().as_default():
        embeddings, accumulators = (MutableHashTable(tf.int64, tf.float32, default_value=tf.fill([DIM], value))
                                    for value in (RANGE, ACCUMULATOR))
        iterator, batch = _input(variant, drawn)
        unique, restore = tf.unique(tf.reshape(batch["ids"], [-1]))
        before = tf.reshape(embeddings.lookup(unique), [-1, DIM])
        loss = _loss(batch, tf.gather(before, restore))
        dense = tf.trainable_variables()
        pairs = _gradients(loss, [*dense, before])
        change = tf.math.unsorted_segment_sum(pairs[-1][0].values, restore, tf.size(unique))
        squares = tf.reshape(accumulators.lookup(unique), [-1, DIM]) + tf.square(change)
        update = [_dense_adagrad(pairs[:-1]), accumulators.insert(unique, squares),
                  embeddings.insert(unique, before - RATE * change * tf.math.rsqrt(squares))]
        with _session(iterator, loss, update) as step:
            yield step


def _input(variant: str, drawn: Dict[str, np.ndarray],
           then: Callable[[Any], Any] = lambda dataset: dataset) -> Tuple[Any, Any]:
    from bench.sessions import tf

    dataset = then(tf.data.Dataset.from_tensor_slices(drawn).repeat()).prefetch(VARIANTS[variant].prefetch)
    iterator = tf.data.make_initializable_iterator(dataset)
    return iterator, iterator.get_next()


def _loss(batch: Dict[str, Any], embeddings: Any) -> Any:
    from bench.sessions import tf
    from examples.dlrm.model import click_logits, click_loss

    joined = tf.reshape(embeddings, [-1, workloads.FEATURES * DIM])
    return click_loss(batch["labels"], click_logits(batch["numbers"], [joined], bottom=(), top=UNITS, seed=1))


def _gradients(loss: Any, values: Any) -> Any:
    """Return (gradient, value) pairs. They are gated, because an update may otherwise overwrite a value that another
    gradient still reads.
    """
    from bench.sessions import tf

    return list(zip(tf.gradients(loss, list(values), gate_gradients=True), values))


def _dense_adagrad(pairs: Any) -> Any:
    from bench.sessions import tf

    return tf.train.AdagradOptimizer(RATE, initial_accumulator_value=ACCUMULATOR).apply_gradients(pairs)


@contextlib.contextmanager
def _session(iterator: Any, loss: Any, update: Any) -> Iterator[Step]:
    from bench.sessions import session, tf

    with session(threads=THREADS) as running:
        running.run([tf.global_variables_initializer(), iterator.initializer])
        yield running.make_callable((loss, tf.group(*update)))
