"""Both sides of the case ``pipeline``: conversion of the ids of 26 features to slots, with one table for all features
or one table for each feature.
"""
import contextlib
from typing import Any, Callable, Dict, Iterator

import numpy as np

from bench import workloads

KEYS = 10 ** 7  #: number of keys in all tables together
BATCHES = 8  #: number of different batches; all their keys have rows after the warm-up
PREFETCH = 2
DIM = 8
THREADS = 2

#: number of tables by variant; the features are distributed over the tables
TABLES = {"1-table": 1, "26-tables": workloads.FEATURES}


def batches(variant: str) -> Dict[str, np.ndarray]:
    """Return a dict from table name to int64[batches, ids]."""
    tables = TABLES[variant]
    keys = workloads.sized(KEYS, 26000) // tables
    ids = workloads.batch_ids() // tables
    return {"table_{}".format(seed): workloads.batches("zipf-1.05", keys=keys, count=BATCHES, ids=ids, seed=seed)
            for seed in range(1, tables + 1)}


@contextlib.contextmanager
def ascpipe_step(drawn: Dict[str, np.ndarray]) -> Iterator[Callable[[], object]]:
    """Yield a step that claims the plan of the next batch. The step fetches one slot and one restore index of
    each table.
    """
    from bench.sessions import running_pipeline, session, tf
    from mx_rec.core.asc.feature_spec import FeatureSpec
    from mx_rec.core.asc.helper import get_asc_insert_func
    from mx_rec.core.asc.manager import start_asc_pipeline
    from mx_rec.core.embedding import create_table, sparse_lookup

    rows = workloads.sized(KEYS, 26000) // len(drawn)
    with tf.Graph().as_default() as graph, running_pipeline():
        tables = {name: create_table(key_dtype=tf.int64, dim=DIM, name=name, emb_initializer=tf.zeros_initializer(),
                                     device_vocabulary_size=rows) for name in drawn}
        specs = {name: FeatureSpec(name + "_ids", table_name=name, index_key=name) for name in drawn}
        dataset = _dataset(drawn).map(get_asc_insert_func(tgt_key_specs=list(specs.values()), is_training=True))
        iterator = tf.data.make_initializable_iterator(dataset.prefetch(PREFETCH))
        batch = iterator.get_next()
        for name, table in tables.items():
            sparse_lookup(table, specs[name], batch=batch, is_train=True)
        start_asc_pipeline()
        with session(threads=THREADS) as running:
            running.run([tf.global_variables_initializer(), iterator.initializer])
            looked_at = [_last(output) for op in graph.get_operations() if op.type == "AscNextPlan"
                         for output in op.outputs[:2]]
            yield running.make_callable(tf.add_n(looked_at))


@contextlib.contextmanager
def hash_table_step(drawn: Dict[str, np.ndarray]) -> Iterator[Callable[[], object]]:
    """Yield a step with the same work in TensorFlow's graph: distinct ids, their slots, and new slots for ids
    without a slot.
    """
    from bench.sessions import DenseHashTable, session, tf

    with tf.Graph().as_default():
        iterator = tf.data.make_initializable_iterator(_dataset(drawn).prefetch(PREFETCH))
        looked_at = []
        for name, ids in iterator.get_next().items():
            known = len(np.unique(drawn[name]))
            table = DenseHashTable(tf.int64, tf.int32, default_value=-1, empty_key=-1, deleted_key=-2,
                                   initial_num_buckets=1 << (2 * known - 1).bit_length())
            unique, restore = tf.unique(ids)
            slots = table.lookup(unique)
            new = tf.boolean_mask(unique, slots < 0)
            first = tf.cast(table.size(), tf.int32)
            with tf.control_dependencies([table.insert(new, first + tf.range(tf.size(new)))]):
                looked_at += [_last(slots), _last(restore)]
        with session(threads=THREADS) as running:
            running.run(iterator.initializer)
            yield running.make_callable(tf.add_n(looked_at))


def _dataset(drawn: Dict[str, np.ndarray]) -> Any:
    from bench.sessions import tf

    return tf.data.Dataset.from_tensor_slices(drawn).repeat()


def _last(values: Any) -> Any:
    from bench.sessions import tf

    return tf.reshape(values, [-1])[-1]
