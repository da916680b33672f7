"""One training step with bags of ids only: lookup, combination and training, with two threads.

The batch has 8,192 x 26 bags of 1 to 20 ids. The ids select rows of one table with 2,000,000 rows of 16 floats, trained
by Adagrad. The peer is `embedding_lookup_sparse` on a variable, with row numbers from the same dataset.
"""
import contextlib
from typing import Any, Callable, Dict, Iterator, NamedTuple, Tuple

import numpy as np

from bench import workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders, repeated

ROWS = 2 * 10 ** 6
DIM = 16
MOST = 20  #: maximum number of ids of a bag
BATCHES = 8
PREFETCH = 2
THREADS = 2
RATE = .05
ACCUMULATOR = .1

_OURS = "lookup_sparse"
_TF = "tf.Variable, embedding_lookup_sparse"


class Variant(NamedTuple):
    """Combination of bags."""

    combiner: str
    weighted: bool


VARIANTS = {"sum": Variant("sum", False), "mean": Variant("mean", False), "weighted-sum": Variant("sum", True),
            "weighted-mean": Variant("mean", True)}


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    drawn = _batches()
    with _ours(VARIANTS[variant], drawn) as ours, _theirs(VARIANTS[variant], drawn) as theirs:
        count = workloads.sized(6, 2)
        lead = PREFETCH + 2
        yield Contenders(count, {_OURS: repeated(ours, count), _TF: repeated(theirs, count)},
                         {_OURS: repeated(ours, lead), _TF: repeated(theirs, lead)})


def _rows() -> int:
    return workloads.sized(ROWS, 60000)


def _batches() -> Any:
    """Return several batches: ids, weights and indices of their bags."""
    bags = workloads.batch_ids()
    random = np.random.RandomState(1)
    stream = workloads.Zipf(_rows(), workloads.DISTRIBUTIONS["zipf-1.05"], seed=1)
    numbers = random.permutation(_rows())
    drawn = []
    for _ in range(BATCHES):
        sizes = random.randint(1, MOST + 1, bags)
        bag_of = np.repeat(np.arange(bags), sizes)
        column = np.arange(len(bag_of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        drawn.append({"ids": numbers[stream.ranks(len(bag_of))], "indices": np.stack([bag_of, column], axis=1),
                      "weights": random.random_sample(len(bag_of)).astype(np.float32) + np.float32(.5)})
    return drawn


def _input(drawn: Any, then: Callable[[Any], Any] = lambda dataset: dataset) -> Tuple[Any, Any]:
    """Return an iterator and its batch: ids and weights as SparseTensors.

    Each batch is a constant of the dataset, so that no side waits for Python.
    """
    from bench.sessions import tf

    def bags(batch: Dict[str, Any]) -> Dict[str, Any]:
        shape = [workloads.batch_ids(), MOST]
        return {"ids": tf.SparseTensor(batch["indices"], batch["ids"], shape), "weights": batch["weights"]}

    batches = tf.data.Dataset.from_tensors(drawn[0])
    for each in drawn[1:]:
        batches = batches.concatenate(tf.data.Dataset.from_tensors(each))
    iterator = tf.data.make_initializable_iterator(then(batches.repeat().map(bags)).prefetch(PREFETCH))
    return iterator, iterator.get_next()


def _weights(variant: Variant, batch: Dict[str, Any]) -> Any:
    from bench.sessions import tf

    ids = batch["ids"]
    return tf.SparseTensor(ids.indices, batch["weights"], ids.dense_shape) if variant.weighted else None


@contextlib.contextmanager
def _ours(variant: Variant, drawn: Any) -> Iterator[Callable[[], object]]:
    import ascpipe.tf as asc
    from bench.sessions import running_pipeline, tf

    with tf.Graph().as_default(), running_pipeline():
        table = asc.create_table("combined", DIM, device_vocabulary_size=_rows(),
                                 initializer=tf.random_uniform_initializer(-.05, .05, seed=1))
        spec = asc.FeatureSpec("ids", table_name="combined")
        iterator, batch = _input(drawn, lambda dataset: dataset.map(asc.insert_function(spec)))
        found = asc.lookup_sparse(table, spec, _weights(variant, batch), variant.combiner, batch=batch)
        optimizer = asc.optimizers.Adagrad(RATE, initial_accumulator_value=ACCUMULATOR)
        train = optimizer.minimize(_loss(found))
        asc.start()
        with _session(iterator, train) as step:
            yield step


@contextlib.contextmanager
def _theirs(variant: Variant, drawn: Any) -> Iterator[Callable[[], object]]:
    from bench.sessions import tf

    with tf.Graph().as_default():
        table = tf.get_variable("table", [_rows(), DIM], initializer=tf.random_uniform_initializer(-.05, .05, seed=1))
        iterator, batch = _input(drawn)
        found = tf.nn.embedding_lookup_sparse(table, batch["ids"], _weights(variant, batch), combiner=variant.combiner)
        train = tf.train.AdagradOptimizer(RATE, initial_accumulator_value=ACCUMULATOR).minimize(_loss(found))
        with _session(iterator, train) as step:
            yield step


def _loss(found: Any) -> Any:
    from bench.sessions import tf

    return tf.nn.l2_loss(found - .5)


@contextlib.contextmanager
def _session(iterator: Any, train: Any) -> Iterator[Callable[[], object]]:
    from bench.sessions import session, tf

    with session(threads=THREADS) as running:
        running.run([tf.global_variables_initializer(), iterator.initializer])
        yield running.make_callable(train)


CASE = Case("combiner", "step", "one_trainer_one_key_worker_one_table_worker", tuple(VARIANTS), prepare,
            "bags of ids looked up, combined and trained, {:,} bags a batch".format(workloads.BATCH_IDS),
            {name: [Goal(RATIO, 4 if variant.weighted else 2.5, _TF)] for name, variant in VARIANTS.items()})
