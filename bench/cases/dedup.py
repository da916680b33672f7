"""Distinct keys of one batch with the index that undoes it."""
import contextlib
from typing import Callable, Iterator

import numpy as np

from bench import workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders

KEYS = 10 ** 7  #: keys that ids are drawn from
BATCHES = 4  #: different ones, so that no contender profits from the caches of its last call

_TF = "tf.unique in a graph"
_NUMPY = "np.unique with inverse"


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    """One call dedups every batch once."""
    batches = workloads.batches(variant, keys=workloads.sized(KEYS, 10 ** 4), count=BATCHES,
                                ids=workloads.batch_ids())
    with _tf_unique(batches) as tf_unique:
        yield Contenders(batches.size, {
            "ascpipe.kernels.unique": _kernel(batches),
            _TF: tf_unique,
            _NUMPY: lambda: [np.unique(batch, return_inverse=True) for batch in batches],
        })


def _kernel(batches: np.ndarray) -> Callable[[], object]:
    """What a key worker does with a frame of a ring, for each batch."""
    from bench.planner import Batches, empty_truth

    return Batches(empty_truth(1, 1, home_rows=0), batches.shape[1]).dedup(range(len(batches)), batches)


@contextlib.contextmanager
def _tf_unique(batches: np.ndarray) -> Iterator[Callable[[], object]]:
    """tf.unique over batches that TensorFlow holds already: one run for all of them, nothing is fed."""
    from bench.sessions import tf, unoptimised_session

    with tf.Graph().as_default(), unoptimised_session(threads=1) as session:
        held = [tf.Variable(tf.zeros(batch.shape, tf.int64), trainable=False) for batch in batches]
        feed = tf.placeholder(tf.int64, batches.shape)
        fill = tf.group([tf.assign(variable, feed[number]) for number, variable in enumerate(held)])
        session.run(tf.global_variables_initializer())
        session.run(fill, {feed: batches})
        # A value of each output is consumed: an op that only control edges need is pruned.
        found = [tf.unique(variable) for variable in held]
        last = tf.add_n([pair.y[-1] + tf.cast(pair.idx[-1], tf.int64) for pair in found])
        yield session.make_callable(last)


CASE = Case("dedup", "id", "one_thread", tuple(workloads.DISTRIBUTIONS), prepare,
            "distinct keys, restore index and counts of batches of {:,} ids".format(workloads.BATCH_IDS),
            {variant: [Goal(RATIO, limit, peer) for peer in (_TF, _NUMPY)]
             for variant, limit in (("zipf-1.05", 10), ("zipf-1.2", 10), ("uniform", 8))})
