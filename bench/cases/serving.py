"""Lookups of an exported model: rows of 10^6 keys with 16 floats from a table file, without a pipeline."""
import contextlib
import os
import tempfile
from typing import Any, Callable, Iterator

import numpy as np

from bench import workloads
from bench.harness import Case, Contenders

KEYS = 10 ** 6
DIM = 16
IDS = 256 * 26  #: ids of a request
REQUESTS = 16  #: number of different requests in a call
THREADS = 2


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    """Set up calls that look up every request once."""
    from bench.sessions import session, tf

    keys = workloads.scramble(np.arange(KEYS))
    rows = np.random.RandomState(1).rand(KEYS, DIM).astype(np.float32)
    requests = workloads.batches(variant, keys=KEYS, count=REQUESTS, ids=IDS)
    with tf.Graph().as_default():
        ids = tf.placeholder(tf.int64, [IDS])
        with _served(keys, rows, ids) as ours, session(threads=THREADS) as running:
            graphs = {"ascpipe": ours, "DenseHashTable and gather": _hashed(keys, rows, ids)}
            running.run(tf.global_variables_initializer())
            running.run(tf.tables_initializer())
            # Only one element is fetched, so that copies of results are not measured.
            calls = {name: _caller(running.make_callable(found[-1, -1], [ids]), requests)
                     for name, found in graphs.items()}
            yield Contenders(requests.size, calls)


def _caller(look_up: Callable[[np.ndarray], object], requests: np.ndarray) -> Callable[[], object]:
    return lambda: [look_up(request) for request in requests]


@contextlib.contextmanager
def _served(keys: np.ndarray, rows: np.ndarray, ids: Any) -> Iterator[Any]:
    from ascpipe.checkpoint.contents import Block, InitialRows, Policies, Position, TablePosition, TableSpec
    from ascpipe.checkpoint.writer import CheckpointWriter
    from ascpipe.tf import serving_tables
    from bench.sessions import tf
    from mx_rec.core.embedding import create_table, sparse_lookup
    from mx_rec.util.initialize import init, terminate_config_initializer

    none = np.zeros(KEYS, np.int64)
    spec = TableSpec("ids", DIM, "int64", (), KEYS, 0, InitialRows(1, 0, 0.0, 0.0, 1.0), Policies(-1, False, 1, -1, 0))
    init()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            with CheckpointWriter(folder, "model", 1, dense=False) as writer:
                writer.begin_tables([spec])
                writer.write_table("ids", [Block(keys, rows, none, none)])
                writer.commit(Position("bench", {"ids": TablePosition(1, 0)}, {"training": 1}))
            with serving_tables(os.path.join(folder, "model-1")):
                table = create_table(tf.int64, DIM, "ids", tf.zeros_initializer())
                yield sparse_lookup(table, ids, is_train=False, modify_graph=True)
    finally:
        terminate_config_initializer()


def _hashed(keys: np.ndarray, rows: np.ndarray, ids: Any) -> Any:
    """Return a lookup of plain TensorFlow: the row number of a key, then the row."""
    from bench.sessions import DenseHashTable, tf

    held = tf.get_variable("rows", initializer=rows, trainable=False)
    places = DenseHashTable(tf.int64, tf.int32, default_value=-1, empty_key=-1, deleted_key=-2,
                            initial_num_buckets=1 << (2 * KEYS).bit_length())
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, places.insert(tf.constant(keys), tf.range(KEYS)))
    return tf.gather(held, places.lookup(ids))


CASE = Case("serving", "id", "one_program", tuple(workloads.DISTRIBUTIONS), prepare,
            "rows of requests of {:,} ids from a table file of {:,} keys".format(IDS, KEYS))
