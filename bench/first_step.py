"""Program that trains one step: `python -m bench.first_step {ascpipe|plain}`. The case ``startup`` uses it.

After the step the program prints one JSON line with the durations of its parts in seconds.
"""
import json
import sys
import time
from typing import Any, List

STARTED = time.perf_counter()
ROWS = 100000
DIM = 16
BATCH = 8000


def main(side: str) -> None:
    """Train one step."""
    from bench.sessions import session, tf

    imported = time.perf_counter()
    dataset = tf.data.Dataset.from_tensor_slices({"ids": [list(range(BATCH))]}).repeat()
    train, iterator, start, end = {"ascpipe": _ascpipe, "plain": _plain}[side](tf, dataset)
    built = time.perf_counter()
    start()
    with session(threads=2) as running:
        running.run([tf.global_variables_initializer(), iterator.initializer])
        running.run(train)
    done = time.perf_counter()
    print(json.dumps({"import of TensorFlow": imported - STARTED, "graph": built - imported, "rest": done - built}),
          flush=True)
    end()


def _ascpipe(tf: Any, dataset: Any) -> List[Any]:
    from mx_rec.core.asc.feature_spec import FeatureSpec
    from mx_rec.core.asc.helper import get_asc_insert_func
    from mx_rec.core.asc.manager import start_asc_pipeline
    from mx_rec.core.embedding import create_table, sparse_lookup
    from mx_rec.optimizers.adagrad import create_hash_optimizer
    from mx_rec.util.initialize import init, terminate_config_initializer
    from mx_rec.util.variable import get_dense_and_sparse_variable

    init()
    table = create_table(tf.int64, DIM, "ids", tf.random_uniform_initializer(-.05, .05, seed=1),
                         device_vocabulary_size=ROWS)
    spec = FeatureSpec("ids", index_key="ids")
    iterator = tf.data.make_initializable_iterator(
        dataset.map(get_asc_insert_func([spec], is_training=True)).prefetch(2))
    rows = sparse_lookup(table, spec, batch=iterator.get_next(), is_train=True)
    _, sparse = get_dense_and_sparse_variable()
    return [_update(tf, rows, sparse, create_hash_optimizer(.05)), iterator, start_asc_pipeline,
            terminate_config_initializer]


def _plain(tf: Any, dataset: Any) -> List[Any]:
    iterator = tf.data.make_initializable_iterator(dataset.prefetch(2))
    table = tf.get_variable("ids", [ROWS, DIM], initializer=tf.random_uniform_initializer(-.05, .05, seed=1))
    rows = tf.nn.embedding_lookup(table, iterator.get_next()["ids"])
    return [_update(tf, rows, [table], tf.train.AdagradOptimizer(.05)), iterator, _nothing, _nothing]


def _nothing() -> None:
    """Do nothing. The plain side has nothing to start or to stop."""


def _update(tf: Any, rows: Any, variables: Any, optimizer: Any) -> Any:
    loss = tf.reduce_sum(tf.square(rows))
    return optimizer.apply_gradients(list(zip(tf.gradients(loss, list(variables)), variables)))


if __name__ == "__main__":
    main(sys.argv[1])
