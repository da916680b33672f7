"""Distinct keys of one batch, with the index that restores the batch."""
import contextlib
from typing import Callable, Iterator

import numpy as np

from bench import workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders

KEYS = 10 ** 7  #: number of keys from which ids are drawn
BATCHES = 4  #: number of different batches, so that no contender profits from the caches of its previous call

_TF = "tf.unique in a graph"
_NUMPY = "np.unique with inverse"


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    """Set up calls that deduplicate every batch once."""
    batches = workloads.batches(variant, keys=workloads.sized(KEYS, 10 ** 4), count=BATCHES,
                                ids=workloads.batch_ids())
    with _tf_unique(batches) as tf_unique:
        yield Contenders(batches.size, {
            "ascpipe.kernels.unique": _kernel(batches),
            _TF: tf_unique,
            _NUMPY: lambda: [np.unique(batch, return_inverse=True) for batch in batches],
        })


def _kernel(batches: np.ndarray) -> Callable[[], object]:
    """Return a function that processes each batch like a key worker processes a frame of a ring."""
    from bench.planner import Batches, empty_truth

    return Batches(empty_truth(1, 1, home_rows=0), batches.shape[1]).dedup(range(len(batches)), batches)


@contextlib.contextmanager
def _tf_unique(batches: np.ndarray) -> Iterator[Callable[[], object]]:
    """Yield a function that runs tf.unique on batches in TensorFlow's memory. One run processes all batches and feeds
    nothing.
    """
    from bench.sessions import tf, unoptimised_session

    with tf.Graph().as_default(), unoptimised_session(threads=1) as session:
        held = [tf.Variable(tf.zeros(batch.shape, tf.int64), trainable=False) for batch in batches]
        feed = tf.placeholder(tf.int64, batches.shape)
        fill = tf.group([tf.assign(variable, feed[number]) for number, variable in enumerate(held)])
        session.run(tf.global_variables_initializer())
        session.run(fill, {feed: batches})
        # A value of each output is used, because TensorFlow removes ops that only have control edges.
        found = [tf.unique(variable) for variable in held]
        last = tf.add_n([pair.y[-1] + tf.cast(pair.idx[-1], tf.int64) for pair in found])
        yield session.make_callable(last)


CASE = Case("dedup", "id", "one_thread", tuple(workloads.DISTRIBUTIONS), prepare,
            "distinct keys, restore index and counts of batches of {:,} ids".format(workloads.BATCH_IDS),
            {variant: [Goal(RATIO, limit, peer) for peer in (_TF, _NUMPY)]
             for variant, limit in (("zipf-1.05", 10), ("zipf-1.2", 10), ("uniform", 8))})
