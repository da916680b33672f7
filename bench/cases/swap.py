"""Exchange of rows between device and host: AscNextPlan of a table whose device holds one tenth of its keys.

Each batch has as many distinct keys as the device has rows. So nearly all rows of the previous batch move to the host
with Adagrad's accumulators, and nearly all rows of this batch move to the device. A step cannot move more rows. The
peer is np.take and assignment of the same rows between arrays of the same shapes, with known moves. Our time is that of
a whole `session.run`, which includes the claim and the copies of the plan.

The figure is the time of a training thread, without the concurrent work of the workers. The workers plan the batches of
a call in the pause before the call, and no other batches are submitted. The cases `pipeline`, `worker_cpu` and `train`
measure the workers. The peer has the same pause, because caches and processors are cold after it.
"""
import contextlib
import itertools
import threading
from typing import Callable, Iterator, List, NamedTuple, Tuple

import numpy as np

from bench import workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders, repeated

KEYS = 200000
PART = 10  #: one in PART keys has a row on the device
_OURS = "AscNextPlan"
_NUMPY = "np.take and assignment"
DIMS = {"dim-16": 16, "dim-64": 64}
ROUNDS = 8  #: number of permutations of all keys, which are split into batches
STEPS = 2  #: steps of a call; as many plans are ready
PAUSE_S = .1  #: pause before a call, in which the workers make the plans
WARM_UP = 2  #: calls of each contender
THREADS = 2


class Moves(NamedTuple):
    """Moves of one batch: rows of the device and of the host, int64[n] each."""

    out_slots: np.ndarray
    out_homes: np.ndarray
    in_slots: np.ndarray
    in_homes: np.ndarray


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    random = np.random.RandomState(1)
    keys = workloads.sized(KEYS, 2000)
    batches = np.concatenate([random.permutation(keys) for _ in range(ROUNDS)]).reshape(-1, keys // PART)
    with _ascpipe(batches.shape[1], DIMS[variant]) as (plan, step):
        calls = {_OURS: repeated(step, STEPS), _NUMPY: repeated(_numpy(batches, DIMS[variant]), STEPS)}
        following = itertools.cycle(batches)
        before = {_OURS: lambda: plan(np.stack([next(following) for _ in range(STEPS + 1)])), _NUMPY: _pause}
        plan(np.stack([next(following) for _ in range(PART)]))  # every key then has a row
        repeated(step, PART - 1)()
        for _ in range(WARM_UP):
            for name, call in calls.items():
                before[name]()
                call()
        yield Contenders(STEPS * batches.shape[1], calls, before)


def _pause() -> None:
    threading.Event().wait(PAUSE_S)


@contextlib.contextmanager
def _ascpipe(keys: int, dim: int) -> Iterator[Tuple[Callable[[np.ndarray], None], Callable[[], object]]]:
    """Yield two functions. The first submits batches, int64[n, keys], and trains the first batch, while the others are
    planned. The second trains the next batch.
    """
    from bench.sessions import running_pipeline, session, tf
    from mx_rec.core.asc.feature_spec import FeatureSpec
    from mx_rec.core.asc.helper import get_asc_insert_func
    from mx_rec.core.asc.manager import start_asc_pipeline
    from mx_rec.core.embedding import create_table, sparse_lookup
    from mx_rec.optimizers import adagrad

    with tf.Graph().as_default() as graph, running_pipeline():
        table = create_table(key_dtype=tf.int64, dim=dim, name="measured", emb_initializer=tf.zeros_initializer(),
                             device_vocabulary_size=keys, host_vocabulary_size=PART * keys)
        spec = FeatureSpec("ids", table_name="measured", index_key="ids")
        ids = tf.placeholder(tf.int64, (None, keys))
        dataset = tf.data.Dataset.from_tensor_slices({"ids": ids})
        dataset = dataset.map(get_asc_insert_func(tgt_key_specs=[spec], is_training=True)).prefetch(32)
        iterator = tf.data.make_initializable_iterator(dataset)
        rows = sparse_lookup(table, spec, batch=iterator.get_next(), is_train=True)
        gradient, = tf.gradients(tf.reduce_sum(rows), table.variable)
        adagrad.create_hash_optimizer(.05).apply_gradients([(gradient, table.variable)])  # never executed
        start_asc_pipeline()
        with session(threads=THREADS) as running:
            running.run(tf.global_variables_initializer())
            move, = (op for op in graph.get_operations() if op.type == "AscNextPlan")
            slots, restore = move.outputs[:2]
            train = running.make_callable(slots[-1] + tf.reshape(restore, [-1])[-1])

            def plan(batches: np.ndarray) -> None:
                running.run(iterator.initializer, {ids: batches})
                train()  # the dataset is read only after the first request for a batch
                _pause()

            yield plan, train


def _numpy(batches: np.ndarray, dim: int) -> Callable[[], object]:
    """Return a function that makes the moves of the next batch. A home row has the embedding and the
    accumulator, like a home row of ascpipe.
    """
    device = [np.zeros((batches.shape[1], dim), np.float32) for _ in range(2)]
    home = np.zeros((PART * batches.shape[1], 2 * dim), np.float32)
    moves = _moves(batches)
    at = [0]

    def step() -> None:
        batch = moves[at[0] % len(moves)]
        at[0] += 1
        for place, rows in enumerate(device):
            home[batch.out_homes, place * dim:(place + 1) * dim] = np.take(rows, batch.out_slots, axis=0)
        come = np.take(home, batch.in_homes, axis=0)
        for place, rows in enumerate(device):
            rows[batch.in_slots] = come[:, place * dim:(place + 1) * dim]

    return step


def _moves(batches: np.ndarray) -> List[Moves]:
    """Return the moves of each batch if the device holds the previous batch. Home rows are numbered in the
    order of first use.
    """
    homes = np.empty(PART * batches.shape[1], np.int64)
    homes[batches[:PART].reshape(-1)] = np.arange(len(homes))
    keys = batches[-1].copy()  # keys by slot
    found = []
    for batch in batches:
        out = np.flatnonzero(~np.in1d(keys, batch))
        new = batch[~np.in1d(batch, keys)]
        found.append(Moves(out, homes[keys[out]], out, homes[new]))
        keys[out] = new
    return found


CASE = Case("swap", "row", "one_trainer_one_key_worker_one_table_worker", tuple(DIMS), prepare,
            "rows out and in with Adagrad's state, device of {:,} rows for {:,} keys".format(KEYS // PART, KEYS),
            {variant: [Goal(RATIO, 3, _NUMPY)] for variant in DIMS}, warm_up=0)
