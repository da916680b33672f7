"""Search for the entries of keys: lookup of the distinct keys of a batch in a table with ten million keys."""
import contextlib
from typing import Callable, Iterator, List

import numpy as np

from bench import workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders

KEYS = 10 ** 7
BATCHES = 4  #: number of different batches, so that no contender profits from the caches of its previous call

_TF = "MutableDenseHashTable.lookup in a graph"
_FILLED_AT_ONCE = 10 ** 6


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    """Set up calls that look up the distinct keys of every batch. The table has all these keys."""
    keys = workloads.sized(KEYS, 10 ** 4)
    drawn = workloads.batches(variant, keys=keys, count=BATCHES, ids=workloads.batch_ids())
    found = [np.unique(batch, return_index=True) for batch in drawn]
    batches = [distinct[np.argsort(first)] for distinct, first in found]  # in order of first appearance
    known = workloads.scramble(np.arange(keys))
    with _tf_lookup(batches, known) as tf_lookup:
        yield Contenders(sum(map(len, batches)), {
            "ascpipe.kernels.index": _index(batches, known),
            _TF: tf_lookup,
        })


def _index(batches: List[np.ndarray], known: np.ndarray) -> Callable[[], object]:
    from ascpipe.kernels.hashing import spread_of
    from ascpipe.kernels.index import find_keys
    from ascpipe.layout.structs import ENTRY
    from ascpipe.layout.words import TRAINED
    from ascpipe.tables.key_index import KeyIndex

    index = KeyIndex(spread_of(workloads.HASH_SEED), len(known))
    entries = np.zeros(len(known), ENTRY)
    entries["key"] = known
    entries["state"] = TRAINED
    index.rebuild(len(known), len(known), entries)
    out = np.empty(max(map(len, batches)), np.int32)

    def call() -> None:
        for batch in batches:
            if find_keys(batch, len(batch), index.index, out):
                raise RuntimeError("a key that is known was not found")

    return call


@contextlib.contextmanager
def _tf_lookup(batches: List[np.ndarray], known: np.ndarray) -> Iterator[Callable[[], object]]:
    """Yield a function that looks up all batches in a ``DenseHashTable`` of TensorFlow.

    Variables contain the batches, so that the function feeds no arrays to the session.
    """
    from bench.sessions import DenseHashTable, tf, unoptimised_session

    with tf.Graph().as_default(), unoptimised_session(threads=1) as session:
        table = DenseHashTable(tf.int64, tf.int32, default_value=-1, empty_key=-1, deleted_key=-2,
                               initial_num_buckets=1 << (2 * len(known) - 1).bit_length())
        held = [tf.Variable(tf.zeros(batch.shape, tf.int64), trainable=False) for batch in batches]
        some = tf.placeholder(tf.int64, [None])
        entry = tf.placeholder(tf.int32, [None])
        insert = table.insert(some, entry)
        fills = [tf.assign(variable, some) for variable in held]
        session.run(tf.global_variables_initializer())
        for batch, fill in zip(batches, fills):
            session.run(fill.op, {some: batch})
        for start in range(0, len(known), _FILLED_AT_ONCE):
            part = known[start:start + _FILLED_AT_ONCE]
            session.run(insert, {some: part, entry: np.arange(start, start + len(part), dtype=np.int32)})
        # A value of each output is used, because TensorFlow removes ops that only have control edges.
        yield session.make_callable(tf.add_n([table.lookup(variable)[-1] for variable in held]))


CASE = Case("index", "key", "one_thread", ("zipf-1.05",), prepare,
            "entries of a batch's distinct keys, {:,} keys known".format(KEYS),
            {"zipf-1.05": [Goal(RATIO, 6, _TF)]})
