"""A training program as users write it, one side in a process of its own: `python -m bench.usual_program JSON`.

One table for each feature, plain lookups, ``tf.concat``, an MLP of 64, 32 and 1 units, ids and labels in memory,
defaults everywhere.  JSON holds the fields of ``Setting``.  The program reads numbers of steps from standard input, a
line each, runs them, and answers each with the processor seconds of its processes so far.  It ends with the input.
"""
import contextlib
import json
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple

import numpy as np

from bench import workloads

OURS, PLAIN, CEILING = "ours", "plain", "ceiling"  #: sides
BATCHES = 16  #: different ones
PREFETCH = 32
RATE = .05
RANGE = .05
UNITS = (64, 32)

_LABEL = "label"


class Setting(NamedTuple):
    """What is trained, and how it is written.

    Attributes:
        side: OURS; PLAIN: variables and ``tf.nn.embedding_lookup``; CEILING: the rows of a batch are constants, whose
            gradient is computed, and there is nothing to look up or to update.
        tables: how many; each has one feature of one id.
        rows: of a batch.
        dim: of the tables.
        keys: of each table.
        part: one in ``part`` of a table's rows fits on the device; 1 = all, and there are no host rows.
        exponent: of the Zipf distribution of the ids.
        optimizer: "adagrad" or "lazy_adam".
        modifies_graph: lookups have tensors, whose ids graph modification moves into the dataset.
    """

    side: str
    tables: int
    rows: int
    dim: int = 16
    keys: int = 100000
    part: int = 1
    exponent: float = 1.05
    optimizer: str = "adagrad"
    modifies_graph: bool = False


def batches(setting: Setting) -> Dict[str, np.ndarray]:
    """Some batches: int64[batches, rows] by name of the feature, and the labels, float32."""
    random = np.random.RandomState(1)
    drawn = {}
    for number in range(setting.tables):
        ranks = workloads.Zipf(setting.keys, setting.exponent, seed=number).ranks(BATCHES * setting.rows)
        drawn["C{}".format(number + 1)] = random.permutation(setting.keys)[ranks].reshape(BATCHES, setting.rows)
    drawn[_LABEL] = random.randint(0, 2, size=(BATCHES, setting.rows)).astype(np.float32)
    return drawn


@contextlib.contextmanager
def ours(setting: Setting) -> Iterator[Callable[[], object]]:
    """A step with tables of ours, by the API of programs for Ascend servers."""
    from bench.sessions import tf
    from mx_rec.core.asc.feature_spec import FeatureSpec
    from mx_rec.core.asc.helper import get_asc_insert_func
    from mx_rec.core.asc.manager import start_asc_pipeline
    from mx_rec.core.embedding import create_table, sparse_lookup
    from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
    from mx_rec.optimizers import adagrad, lazy_adam
    from mx_rec.util.initialize import get_initializer, init, terminate_config_initializer
    from mx_rec.util.variable import get_dense_and_sparse_variable

    init()
    drawn = batches(setting)
    names = [name for name in drawn if name != _LABEL]
    tables = [create_table(key_dtype=tf.int64, dim=setting.dim, name=name, emb_initializer=_initial_rows(tf, seed),
                           device_vocabulary_size=setting.keys // setting.part,
                           host_vocabulary_size=setting.keys if setting.part > 1 else 0)
              for seed, name in enumerate(names)]
    dataset = tf.data.Dataset.from_tensor_slices(drawn).repeat()
    specs = [FeatureSpec(name, table_name=name) for name in names]
    if not setting.modifies_graph:
        dataset = dataset.map(get_asc_insert_func(specs, is_training=True))
    iterator = tf.data.make_initializable_iterator(dataset.prefetch(PREFETCH))
    batch = iterator.get_next()
    if setting.modifies_graph:
        columns = [sparse_lookup(table, batch[name], is_train=True, modify_graph=True)
                   for table, name in zip(tables, names)]
    else:
        columns = [sparse_lookup(table, spec, batch=batch, is_train=True) for table, spec in zip(tables, specs)]
    loss = _loss(tf, columns, batch[_LABEL])
    dense, sparse = get_dense_and_sparse_variable()
    optimizer = _optimizer(tf, setting)
    pairs = optimizer.compute_gradients(loss, [*dense, *sparse])
    of_tables = {"adagrad": adagrad, "lazy_adam": lazy_adam}[setting.optimizer].create_hash_optimizer(RATE)
    train = tf.group(optimizer.apply_gradients(pairs[:len(dense)]), of_tables.apply_gradients(pairs[len(dense):]))
    if setting.modifies_graph:
        modify_graph_and_start_emb_cache()
        initializer = get_initializer(True)
    else:
        start_asc_pipeline()
        initializer = iterator.initializer
    with _running(tf, initializer, [loss, train]) as step:
        yield step
    terminate_config_initializer()


@contextlib.contextmanager
def plain(setting: Setting) -> Iterator[Callable[[], object]]:
    """A step with variables."""
    from bench.sessions import tf

    drawn = batches(setting)
    tables = [tf.get_variable(name, [setting.keys, setting.dim], initializer=_initial_rows(tf, seed))
              for seed, name in enumerate(drawn) if name != _LABEL]
    iterator = _iterator(tf, drawn)
    batch = iterator.get_next()
    columns = [tf.nn.embedding_lookup(table, batch[table.op.name]) for table in tables]
    loss = _loss(tf, columns, batch[_LABEL])
    with _running(tf, iterator.initializer, [loss, _optimizer(tf, setting).minimize(loss)]) as step:
        yield step


@contextlib.contextmanager
def ceiling(setting: Setting) -> Iterator[Callable[[], object]]:
    """A step that has its rows already: what no table can be faster than."""
    from bench.sessions import tf

    drawn = batches(setting)
    iterator = _iterator(tf, drawn)
    batch = iterator.get_next()
    random = np.random.RandomState(2)
    # Placeholders, or TensorFlow would compute with constants once and for all.
    columns = [tf.placeholder_with_default(
        random.uniform(-RANGE, RANGE, (setting.rows, setting.dim)).astype(np.float32), [setting.rows, setting.dim])
        for _ in range(setting.tables)]
    loss = _loss(tf, columns, batch[_LABEL])
    optimizer = _optimizer(tf, setting)
    variables = tf.trainable_variables()
    gradients = tf.gradients(loss, variables + columns, gate_gradients=True)
    # A number of each gradient, or it would not be computed.
    some = tf.add_n([gradient[0, 0] for gradient in gradients[len(variables):]])
    with _running(tf, iterator.initializer,
                  [loss, some, optimizer.apply_gradients(zip(gradients, variables))]) as step:
        yield step


def _initial_rows(tf: Any, seed: int) -> Any:
    return tf.random_uniform_initializer(-RANGE, RANGE, seed=seed)


def _iterator(tf: Any, drawn: Dict[str, np.ndarray]) -> Any:
    return tf.data.make_initializable_iterator(
        tf.data.Dataset.from_tensor_slices(drawn).repeat().prefetch(PREFETCH))


def _loss(tf: Any, columns: List[Any], label: Any) -> Any:
    inputs = tf.concat(columns, axis=1)
    for number, units in enumerate(UNITS):
        inputs = tf.layers.dense(inputs, units, tf.nn.relu, kernel_initializer=tf.glorot_uniform_initializer(number))
    logits = tf.layers.dense(inputs, 1, kernel_initializer=tf.glorot_uniform_initializer(len(UNITS)))
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=tf.squeeze(logits, axis=1)))


def _optimizer(tf: Any, setting: Setting) -> Any:
    if setting.optimizer == "adagrad":
        return tf.train.AdagradOptimizer(RATE)
    from tensorflow.contrib.opt import LazyAdamOptimizer

    return LazyAdamOptimizer(RATE)


@contextlib.contextmanager
def _running(tf: Any, initializer: Any, fetched: List[Any]) -> Iterator[Callable[[], object]]:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), initializer])
        yield lambda: session.run(fetched)


def main(arguments: List[str]) -> None:
    """Run steps until the input ends."""
    from bench import processes

    setting = Setting(**json.loads(arguments[0]))
    clocks = [time.process_time]
    with {OURS: ours, PLAIN: plain, CEILING: ceiling}[setting.side](setting) as step:
        step()
        if setting.side == OURS:
            clocks.append(processes.cpu_clock([pid for found in processes.of_pipeline().values() for pid in found]))
        print(json.dumps(0.0), flush=True)
        for line in sys.stdin:
            for _ in range(int(line)):
                step()
            print(json.dumps(sum(clock() for clock in clocks)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
