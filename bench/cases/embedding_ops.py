"""Ops of a step between ids and rows with one thread: lookup, sum of the gradients per row, Adagrad.

Our ops are AscLookup, AscLookupGrad and AscApplyAdagrad. They get the distinct rows and the restore index from the
pipeline. TensorFlow's ops are gather and Adagrad of the same row numbers. TensorFlow sums repeated rows (Unique,
UnsortedSegmentSum) before SparseApplyAdagrad. The cases `dedup` and `pipeline` measure the search for distinct rows.
"""
import contextlib
from typing import Any, Callable, Iterator, List

import numpy as np

from bench import workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders

ROWS = 10 ** 6  #: rows of the table
DIM = 16
BATCHES = 4  #: number of different batches, so that no contender profits from the caches of its previous call
RATE = .05

_OURS = "AscLookup, AscLookupGrad, AscApplyAdagrad, of distinct rows and restore index"
_TF = "gather, Unique, segment sum, apply, of row numbers"


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    """Set up calls that train every batch once."""
    from bench.sessions import tf, unoptimised_session

    stream = workloads.Zipf(ROWS, workloads.DISTRIBUTIONS[variant], seed=1)
    rows = np.random.RandomState(1).permutation(ROWS)[stream.ranks(BATCHES * workloads.batch_ids())]
    batches = list(rows.reshape(BATCHES, workloads.batch_ids()))
    with tf.Graph().as_default(), unoptimised_session(threads=1) as running:
        ours = _ours(batches)
        theirs = _theirs(batches)
        running.run(tf.global_variables_initializer())
        yield Contenders(BATCHES * workloads.batch_ids(), {
            _OURS: _all(running, ours), _TF: _all(running, theirs)})


def _all(running: Any, steps: List[Any]) -> Callable[[], object]:
    calls = [running.make_callable(step) for step in steps]
    return lambda: [call() for call in calls]


def _held(value: np.ndarray) -> Any:
    """Return a variable, so that TensorFlow does not treat the value as a constant."""
    from bench.sessions import tf

    return tf.Variable(value, trainable=False, use_resource=False)


def _table(name: str) -> Any:
    from bench.sessions import tf

    return tf.Variable(tf.random_uniform([ROWS, DIM], seed=1), trainable=False, use_resource=False, name=name)


def _gradient() -> Any:
    """Return the gradients of the positions of a batch. All batches have the same gradients."""
    return _held(np.random.RandomState(2).randn(workloads.batch_ids(), DIM).astype(np.float32))


def _ours(batches: List[np.ndarray]) -> List[Any]:
    from ascpipe.tf.running import native
    from bench.sessions import tf

    ops = native.ops()
    table = _table("ours")
    gradient = _gradient()
    accumulator = tf.Variable(tf.fill([ROWS, DIM], .1), trainable=False, use_resource=False)
    steps = []
    for batch in batches:
        distinct, restore = _in_order_of_appearance(batch)
        slots = _held(distinct)
        index = _held(restore)
        (found,) = ops.asc_lookup(table, slots, [index], 0.0)
        with tf.control_dependencies([found]):
            values, rows = ops.asc_lookup_grad(slots, [index], [gradient], dim=DIM)
        with tf.control_dependencies([ops.asc_apply_adagrad(table, accumulator, RATE, values, rows)]):
            steps.append(tf.identity(found[-1, -1]))
    return steps


def _in_order_of_appearance(batch: np.ndarray) -> Any:
    """Return the distinct rows and the restore index of a batch as int32, like the key worker."""
    distinct, first, restore = np.unique(batch, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    return distinct[order].astype(np.int32), number[restore]


def _theirs(batches: List[np.ndarray]) -> List[Any]:
    from bench.sessions import tf

    table = _table("theirs")
    gradient = _gradient()
    optimizer = tf.train.AdagradOptimizer(RATE)
    steps = []
    for batch in batches:
        rows = _held(batch)
        found = tf.gather(table, rows)
        with tf.control_dependencies([found]):
            pair = (tf.IndexedSlices(tf.identity(gradient), rows, tf.constant([ROWS, DIM])), table)
        with tf.control_dependencies([optimizer.apply_gradients([pair])]):
            steps.append(tf.identity(found[-1, -1]))
    return steps


CASE = Case("embedding_ops", "id", "one_thread", ("zipf-1.05", "zipf-1.2"), prepare,
            "lookup, gradient sum and Adagrad of batches of {:,} ids, dim {}".format(workloads.BATCH_IDS, DIM),
            {"zipf-1.05": [Goal(RATIO, 6, _TF)]})
