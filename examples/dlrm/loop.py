"""Training program: build of the graph, training, evaluation, report."""
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np

from examples.dlrm import auc, criteo, reader
from examples.dlrm.embeddings import InitialRows, PipelineTables, PlainTables, TableShape, plain_optimizer
from examples.dlrm.model import click_logits, click_loss, train_op
from examples.dlrm.options import Options
from examples.dlrm.quiet import tf

#: maximum of the default number of reserved rows
MOST_ROWS = 1 << 18
#: number of first steps without a rate, because they fill caches
WARM_UP_STEPS = 5

Source = Union[PipelineTables, PlainTables]


@dataclass(frozen=True)
class Outcome:
    """Result of a run. ``auc`` and ``loss`` (nats) are computed from the held-out rows."""

    steps: int
    auc: float
    loss: float
    examples_per_s: float
    ids_per_s: float
    losses: List[float]  #: training loss of each step
    ranks: int = 1

    def __str__(self) -> str:
        return "demo: ok {}steps={} auc={:.3f} loss={:.3f} examples_per_s={:.0f} ids_per_s={:.0f}".format(
            "ranks={} ".format(self.ranks) if self.ranks > 1 else "", self.steps, self.auc, self.loss,
            self.examples_per_s, self.ids_per_s)


def run(options: Options, files: criteo.Split, initial_rows: Optional[InitialRows] = None,
        report: Callable[[str], None] = print) -> Outcome:
    """Train on ``files`` with ``options``, in a separate graph and session.

    Args:
        options: see ``options.py``. ``options.data`` is ignored.
        files: result of ``criteo.split``.
        initial_rows: initial rows for ``options.plain``.
        report: function that is called with each progress line.

    Raises:
        tf.errors.OpError: a step failed.
    """
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(options.seed)
        steps = options.step_count(files.training_rows)
        # A static evaluation ignores a partial last batch, so there must be a full batch of all ranks.
        options = replace(options, eval_batch_size=max(1, min(
            options.eval_batch_size, files.held_out_rows) // options.ranks))
        source = _source(options, files, steps, initial_rows)
        try:
            return _Program(options, files, source, report).run(steps)
        finally:
            source.close()


def _source(options: Options, files: criteo.Split, steps: int, initial_rows: Optional[InitialRows]) -> Source:
    device_rows = options.device_rows
    if device_rows is None:
        lookups_of_a_table = criteo.FIELD_COUNT if options.shared_table else 1
        device_rows = min(files.training_rows * lookups_of_a_table, MOST_ROWS)
    shape = TableShape(options.dim, device_rows, options.shared_table, options.seed)
    if options.plain:
        return PlainTables(shape, trained_keys(files.training), initial_rows)
    return PipelineTables(shape, dynamic=options.dynamic, batch_size=options.batch_size // options.ranks,
                          eval_batch_size=options.eval_batch_size, steps=steps)


def trained_keys(path: str) -> Dict[str, np.ndarray]:
    """Return the sorted distinct int64 keys of a file, by field."""
    found: Dict[str, List[np.ndarray]] = {field: [np.zeros(0, np.int64)] for field in criteo.FIELDS}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rows = reader.dataset(path, 4096)
        batch = tf.compat.v1.data.make_one_shot_iterator(rows).get_next()
        keys = {field: batch[field] for field in criteo.FIELDS}
        for values in _until_the_end(session, keys):
            for field, part in values.items():
                found[field].append(np.unique(part))
    return {field: np.unique(np.concatenate(parts)) for field, parts in found.items()}


def _until_the_end(session: tf.compat.v1.Session, fetches: Any) -> Iterator[Any]:
    """Yield ``session.run(fetches)`` until the data ends."""
    while True:
        try:
            yield session.run(fetches)
        except tf.errors.OutOfRangeError:
            return


class _Program:
    def __init__(self, options: Options, files: criteo.Split, source: Source, report: Callable[[str], None]) -> None:
        self._options = options
        self._report = report
        self._source = source
        self._iterator, batch = self._batches(files.training, training=True)
        loss = click_loss(batch[criteo.LABEL], self._logits(batch, training=True))
        self._loss, = source.average([loss])  # equals the loss with one rank
        self._eval_iterator, batch = self._batches(files.held_out, training=False)
        self._scored = source.gather([batch[criteo.LABEL], self._logits(batch, training=False)])
        dense, sparse = source.variables()
        self._step = train_op(loss, dense, sparse, plain_optimizer(options.optimizer, options.rate),
                              source.optimizer(options.optimizer, options.rate), source.average)
        source.start()
        self._initial = tf.compat.v1.global_variables_initializer()

    def _batches(self, path: str, *, training: bool) -> Tuple[tf.data.Iterator, reader.Batch]:
        options = self._options
        if training:
            rows = reader.dataset(path, options.batch_size // options.ranks, shuffle=True, seed=options.seed,
                                  epochs=None, drop_remainder=True)
        else:
            rows = reader.dataset(path, options.eval_batch_size, drop_remainder=not options.dynamic)
        rows = self._source.insert(rows, training)
        if options.prefetch:
            rows = rows.prefetch(options.prefetch)
        iterator = tf.compat.v1.data.make_initializable_iterator(rows)
        return iterator, iterator.get_next()

    def _logits(self, batch: reader.Batch, *, training: bool) -> tf.Tensor:
        options = self._options
        return click_logits(batch[criteo.DENSE], self._source.lookup(batch, training), bottom=options.bottom,
                            top=options.top, seed=options.seed)

    def run(self, steps: int) -> Outcome:
        options = self._options
        config = tf.compat.v1.ConfigProto(
            inter_op_parallelism_threads=options.threads, intra_op_parallelism_threads=options.threads)
        losses: List[float] = []
        seconds: List[float] = []
        with tf.compat.v1.Session(config=config) as session:
            session.run(self._initial)
            session.run(self._iterator.initializer)
            for step in range(1, steps + 1):
                started = time.perf_counter()
                losses.append(float(session.run((self._loss, self._step))[0]))
                seconds.append(time.perf_counter() - started)
                if step % options.progress_every == 0:
                    recent = options.progress_every
                    self._report("step {}/{} loss {:.4f} {:.0f} examples/s".format(
                        step, steps, np.mean(losses[-recent:]), options.batch_size * recent / sum(seconds[-recent:])))
                if options.eval_every and step % options.eval_every == 0 and step < steps:
                    self._report("step {}/{} held-out auc {:.4f} loss {:.4f}".format(
                        step, steps, *self._evaluate(session)))
            area, loss = self._evaluate(session)
        steady = seconds[WARM_UP_STEPS:] or seconds
        rate = options.batch_size * len(steady) / sum(steady)
        return Outcome(steps, area, loss, rate, rate * criteo.FIELD_COUNT, losses, options.ranks)

    def _evaluate(self, session: tf.compat.v1.Session) -> Tuple[float, float]:
        session.run(self._eval_iterator.initializer)
        labels, logits = zip(*_until_the_end(session, self._scored))
        labels, logits = np.concatenate(labels), np.concatenate(logits)
        return auc.area_under_curve(labels, logits), auc.log_loss(labels, logits)
