"""One training step of the click model: 26 fields, 13 numbers, MLP 64-32-1, Adagrad.

Against the same model on tf.Variable and embedding_lookup, with the row numbers given: the plain model finds its rows
without any hash table.  Both read ready batches, gate their gradients, and run on two threads; the workers' processor
time is not taken out.
"""
import contextlib
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np

from bench import workloads
from bench.harness import Case, Contenders, repeated

ROWS = 200000  #: keys of each field, and rows of each table
DIM = 16
BATCHES = 16
STEPS = 16  #: timed ones of a call
#: steps before them in each call, not timed: both sides have batches ready from the other's turn
LEAD = 4
PREFETCH = 2
THREADS = 2
RATE = .05
UNITS = (64, 32)


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    batches = _batches(variant)
    with contextlib.ExitStack() as stack:
        steps = {"ascpipe": stack.enter_context(_ascpipe(batches)),
                 "tf.Variable, embedding_lookup": stack.enter_context(_plain(batches))}
        yield Contenders(STEPS, {name: repeated(step, STEPS) for name, step in steps.items()},
                         {name: repeated(step, LEAD) for name, step in steps.items()})


def _batches(variant: str) -> Dict[str, np.ndarray]:
    from examples.dlrm import criteo

    random = np.random.RandomState(1)
    stream = workloads.Zipf(ROWS, workloads.DISTRIBUTIONS[variant], seed=1)
    shape = (BATCHES, workloads.BATCH_ROWS)
    batches: Dict[str, np.ndarray] = {
        field: random.permutation(ROWS)[stream.ranks(shape[0] * shape[1])].reshape(shape) for field in criteo.FIELDS}
    batches[criteo.LABEL] = random.randint(0, 2, size=shape).astype(np.float32)
    batches[criteo.DENSE] = random.random_sample(shape + (criteo.DENSE_COUNT,)).astype(np.float32)
    return batches


class _DirectTables:
    """Embeddings of the plain model; the methods of ``examples.dlrm.embeddings``."""

    def __init__(self) -> None:
        from bench.sessions import tf
        from examples.dlrm import criteo

        self._tf = tf
        self._tables = {field: tf.get_variable(field, [ROWS, DIM], trainable=False,
                                               initializer=tf.random_uniform_initializer(-.05, .05, seed=1))
                        for field in criteo.FIELDS}

    def insert(self, dataset: Any, training: bool) -> Any:
        return dataset

    def lookup(self, batch: Dict[str, Any], training: bool) -> List[Any]:
        return [self._tf.nn.embedding_lookup(table, batch[field]) for field, table in self._tables.items()]

    def variables(self) -> Tuple[List[Any], List[Any]]:
        return self._tf.trainable_variables(), list(self._tables.values())

    def optimizer(self, name: str, rate: float) -> Any:
        from examples.dlrm.embeddings import plain_optimizer

        return plain_optimizer(name, rate)

    def start(self) -> None:
        """Nothing to start."""

    def close(self) -> None:
        """Nothing to close."""


@contextlib.contextmanager
def _ascpipe(batches: Dict[str, np.ndarray]) -> Iterator[Callable[[], object]]:
    from bench.sessions import tf
    from examples.dlrm.embeddings import PipelineTables, TableShape

    with tf.Graph().as_default():
        shape = TableShape(dim=DIM, rows=ROWS, shared=False, seed=1)
        with contextlib.closing(PipelineTables(shape, dynamic=True, batch_size=workloads.BATCH_ROWS,
                                               eval_batch_size=1, steps=-1)) as tables:
            with _training(tables, batches) as call:
                yield call


@contextlib.contextmanager
def _plain(batches: Dict[str, np.ndarray]) -> Iterator[Callable[[], object]]:
    from bench.sessions import tf

    with tf.Graph().as_default(), _training(_DirectTables(), batches) as call:
        yield call


@contextlib.contextmanager
def _training(tables: Any, batches: Dict[str, np.ndarray]) -> Iterator[Callable[[], object]]:
    from bench.sessions import session, tf
    from examples.dlrm import criteo
    from examples.dlrm.embeddings import plain_optimizer
    from examples.dlrm.model import click_logits, click_loss, train_op

    dataset = tables.insert(tf.data.Dataset.from_tensor_slices(batches).repeat(), True).prefetch(PREFETCH)
    iterator = tf.data.make_initializable_iterator(dataset)
    batch = iterator.get_next()
    logits = click_logits(batch[criteo.DENSE], tables.lookup(batch, True), bottom=(), top=UNITS, seed=1)
    loss = click_loss(batch[criteo.LABEL], logits)
    dense, sparse = tables.variables()
    update = train_op(loss, dense, sparse, plain_optimizer("adagrad", RATE), tables.optimizer("adagrad", RATE))
    tables.start()
    with session(threads=THREADS) as running:
        running.run([tf.global_variables_initializer(), iterator.initializer])
        yield running.make_callable((loss, update))


CASE = Case("train", "step", "one_trainer_one_key_worker_one_table_worker", ("zipf-1.05", "zipf-1.2"), prepare,
            "training step, batch of {:,} rows".format(workloads.BATCH_ROWS))
