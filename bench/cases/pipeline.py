"""From the ids of a batch to the slot of each: AscSubmit to AscNextPlan, against TensorFlow's own way.

TensorFlow's: tf.unique and a MutableDenseHashTable that knows every key already, in the training graph.  Ours does
more (it counts, looks ahead and leases) and most of it beside the graph; the processor time of the workers is not in
these figures, only how long the graph waits.
"""
import contextlib
from typing import Any, Callable, Iterator

import numpy as np

from bench import workloads
from bench.harness import Case, Contenders, repeated

KEYS = 10 ** 6
BATCHES = 8  #: different ones; after the warm-up every key of them has its row
STEPS = 24  #: timed ones of a call
#: steps before them, not timed: while the other contender ran, batches were made ready for this one
LEAD = 4
PREFETCH = 2
DIM = 8
THREADS = 2


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    batches = workloads.batches(variant, keys=KEYS, count=BATCHES, ids=workloads.BATCH_IDS)
    with contextlib.ExitStack() as stack:
        steps = {"AscSubmit to AscNextPlan": stack.enter_context(_ascpipe(batches)),
                 "tf.unique, MutableDenseHashTable": stack.enter_context(_hash_table(batches))}
        yield Contenders(STEPS * workloads.BATCH_IDS, {name: repeated(step, STEPS) for name, step in steps.items()},
                         {name: repeated(step, LEAD) for name, step in steps.items()})


@contextlib.contextmanager
def _ascpipe(batches: np.ndarray) -> Iterator[Callable[[], object]]:
    from bench.sessions import running_pipeline, session, tf
    from mx_rec.core.asc.feature_spec import FeatureSpec
    from mx_rec.core.asc.helper import get_asc_insert_func
    from mx_rec.core.asc.manager import start_asc_pipeline
    from mx_rec.core.embedding import create_table, sparse_lookup

    with tf.Graph().as_default() as graph, running_pipeline():
        table = create_table(key_dtype=tf.int64, dim=DIM, name="measured", emb_initializer=tf.zeros_initializer(),
                             device_vocabulary_size=KEYS)
        spec = FeatureSpec("ids", table_name="measured", index_key="ids")
        dataset = tf.data.Dataset.from_tensor_slices({"ids": _constant(batches)}).repeat()
        dataset = dataset.map(get_asc_insert_func(tgt_key_specs=[spec], is_training=True)).prefetch(PREFETCH)
        iterator = tf.data.make_initializable_iterator(dataset)
        sparse_lookup(table, spec, batch=iterator.get_next(), is_train=True)
        start_asc_pipeline()
        plan, = (op for op in graph.get_operations() if op.type == "AscNextPlan")
        slots, restore = plan.outputs[:2]
        with session(threads=THREADS) as running:
            running.run([tf.global_variables_initializer(), iterator.initializer])
            yield running.make_callable(slots[-1] + tf.reshape(restore, [-1])[-1])


@contextlib.contextmanager
def _hash_table(batches: np.ndarray) -> Iterator[Callable[[], object]]:
    from bench.sessions import DenseHashTable, session, tf

    with tf.Graph().as_default():
        known = np.unique(batches)
        slots = DenseHashTable(tf.int64, tf.int32, default_value=-1, empty_key=-1, deleted_key=-2,
                               initial_num_buckets=1 << (2 * len(known)).bit_length())
        fill = slots.insert(_constant(known), tf.range(len(known)))
        dataset = tf.data.Dataset.from_tensor_slices(_constant(batches)).repeat().prefetch(PREFETCH)
        iterator = tf.data.make_initializable_iterator(dataset)
        unique, restore = tf.unique(iterator.get_next())
        with session(threads=THREADS) as running:
            running.run([fill, iterator.initializer])
            yield running.make_callable(slots.lookup(unique)[-1] + restore[-1])


def _constant(values: np.ndarray) -> Any:
    from bench.sessions import tf

    return tf.constant(values)


CASE = Case("pipeline", "id", "one_trainer_one_key_worker_one_table_worker", ("zipf-1.05", "zipf-1.2"), prepare,
            "slots of batches of {:,} ids, all keys known".format(workloads.BATCH_IDS))
