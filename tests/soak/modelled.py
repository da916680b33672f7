"""The program that is trained: a table of each kind, and beside each the dictionary that says what it must compute.

``user`` is on the device alone; ``item`` has host rows, and a device of one batch; ``place`` has rows on disk, too,
with host rows for little more than two batches. ``item`` and ``place`` admit and evict.
"""
from typing import Any, Dict, List, NamedTuple

import numpy as np
import tensorflow as tf

from ascpipe.checkpoint.reader import open_checkpoint
from mx_rec.core.asc.feature_spec import FeatureSpec
from mx_rec.core.asc.helper import get_asc_insert_func
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers import adagrad
from mx_rec.util.ops import import_host_pipeline_ops
from tests.reference import initial_rows
from tests.support import checkpoints
from tests.support.table_model import TableModel
from tests.tf import formulas

DIM, KEYS, WIDTH = 4, 400, 12
HOST_ROWS = 40  #: of the table with rows on disk
BATCHES = 4096  #: that are different; they come again and again, with times that go on
EVICT_AGE, THRESHOLD = 60, 2
SEED, DEVIATION = 3, 0.5
RATE, FIRST_ACCUMULATOR = 0.25, 0.5
READ_AHEAD = 40

TARGETS = {"user": 0.1, "item": -0.2, "place": 0.3}


class NotAsExpectedError(AssertionError):
    """What was trained is not what it would be without any fault."""


class ExactAdagrad:
    """As the op computes it, bit by bit."""

    def apply(self, row: np.ndarray, slots: Any, gradient: np.ndarray) -> Any:
        """New row and accumulator."""
        row = row.copy()
        slots = np.full(DIM, FIRST_ACCUMULATOR, np.float32) if slots is None else slots.copy()
        formulas.adagrad([row, slots], gradient, np.float32(RATE))
        return row, slots


def first_row(key: int) -> np.ndarray:
    """A row as it begins."""
    return np.array(initial_rows.row(SEED, initial_rows.NORMAL, 0.0, DEVIATION, 1.0, key, DIM), np.float32)


class Saved(NamedTuple):
    """What a checkpoint must hold: the models, and how many steps were trained."""

    models: Dict[str, Any]
    global_step: int


class Program:
    """Graph and models.

    Args:
        seed: of the ids.
        disk: a directory for rows.

    Attributes:
        initializers: of the iterators and variables, for a session of the graph.
        models: by table.
        steps: batches that were trained; the next one has this number.
        global_step: what the variable must be: a restore takes it back.
    """

    def __init__(self, seed: int, disk: str) -> None:
        first = tf.compat.v1.random_normal_initializer(stddev=DEVIATION, seed=SEED)
        sizes: Dict[str, Dict[str, Any]] = {
            "user": {"device_vocabulary_size": KEYS},
            "item": {"device_vocabulary_size": WIDTH, "host_vocabulary_size": KEYS},
            "place": {"device_vocabulary_size": WIDTH, "host_vocabulary_size": HOST_ROWS,
                      "ssd_vocabulary_size": KEYS, "ssd_data_path": [disk]}}
        self.tables = {name: create_table(tf.int64, DIM, name, first, **kwargs) for name, kwargs in sizes.items()}
        self.models = {name: TableModel(first_row, ExactAdagrad(), -1 if name == "user" else THRESHOLD)
                       for name in self.tables}
        self.steps = self.global_step = 0
        self._ids = ids_of(seed)
        self._step_variable = tf.compat.v1.train.get_or_create_global_step()
        training, taken, rows = self._look_up(training=True)
        evaluation, self._asked, self._answers = self._look_up(training=False)
        self._train = self._trained(taken, rows)
        self._value = tf.compat.v1.placeholder(tf.int32, [])
        self._set_threshold = import_host_pipeline_ops().set_threshold(self._value, emb_name="item")
        self.initializers = [training.initializer, evaluation.initializer]

    def _look_up(self, *, training: bool) -> Any:
        prefix = "" if training else "asked_"
        specs = [FeatureSpec(prefix + name, table_name=name, index_key=name) if name == "user" else
                 FeatureSpec(prefix + name, table_name=name, index_key=name, access_threshold=THRESHOLD,
                             eviction_threshold=EVICT_AGE) for name in self.tables]
        numbers = tf.data.Dataset.range(1 << 60)
        data = tf.data.Dataset.zip((tf.data.Dataset.from_tensor_slices(self._ids).repeat(), numbers)).map(
            lambda ids, number: {**ids, "number": number, "time": time_of(number)})
        stamp = [FeatureSpec("time", index_key="time", is_timestamp=True)] if training else []
        data = data.map(get_asc_insert_func([*specs, *stamp], is_training=training)).prefetch(
            READ_AHEAD if training else 2)
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        batch = iterator.get_next()
        rows = {spec.table_name: sparse_lookup(self.tables[spec.table_name], spec, is_train=training, batch=batch)
                for spec in specs}
        return iterator, {name: batch[name] for name in [*self.tables, "number"]}, rows

    def _trained(self, taken: Any, rows: Dict[str, tf.Tensor]) -> Any:
        """What a step runs: its number, its ids, and rows as they were before they were updated."""
        names = list(self.tables)
        variables = [self.tables[name].variable for name in names]
        loss = tf.add_n([tf.reduce_sum(tf.square(rows[name] - TARGETS[name])) for name in names])
        gated = tf.tuple([*tf.gradients(loss, variables), *[rows[name] for name in names]])
        optimizer = adagrad.create_hash_optimizer(RATE, FIRST_ACCUMULATOR)
        update = optimizer.apply_gradients(list(zip(gated[:len(names)], variables)), global_step=self._step_variable)
        return taken, dict(zip(names, gated[len(names):])), update

    def step(self, running: tf.compat.v1.Session) -> None:
        """Train the next batch; all that it looked up is as the models say."""
        taken, rows, _ = running.run(self._train)
        if int(taken["number"]) != self.steps:
            raise NotAsExpectedError("batch {} was trained where {} was due".format(taken["number"], self.steps))
        for name, model in self.models.items():
            gradients = np.float32(2) * (rows[name] - np.float32(TARGETS[name]))
            expected = model.train(taken[name].tolist(), gradients, int(time_of(self.steps)))
            self._require("step {}".format(self.steps), name, taken[name], rows[name], expected)
        self.steps += 1
        self.global_step += 1

    def evaluate(self, running: tf.compat.v1.Session) -> None:
        """Look up a batch, which changes nothing."""
        asked, rows = running.run([self._asked, self._answers])
        for name, model in self.models.items():
            self._require("evaluation {}".format(asked["number"]), name, asked[name], rows[name],
                          model.evaluate(asked[name].tolist()))

    def set_threshold(self, running: tf.compat.v1.Session, value: int) -> None:
        """Of ``item``."""
        running.run(self._set_threshold, {self._value: value})
        self.models["item"].set_threshold(value)

    def evicted(self) -> None:
        """The tables have evicted."""
        for name in ("item", "place"):
            self.models[name].evict(EVICT_AGE)

    def saved(self) -> Saved:
        """What a save says now."""
        return Saved({name: model.saved() for name, model in self.models.items()}, self.global_step)

    def restored(self, saved: Saved) -> None:
        """The tables are as they were then; batches go on."""
        self.global_step = saved.global_step
        for name, model in self.models.items():
            model.restore(saved.models[name])

    def require_sizes(self, running: tf.compat.v1.Session) -> None:
        """Keys with a row, and the dense variable, are as the models say."""
        sizes = {name: table.size() for name, table in self.tables.items()}
        expected = {name: model.size() for name, model in self.models.items()}
        step = int(running.run(self._step_variable))
        if (sizes, step) != (expected, self.global_step):
            raise NotAsExpectedError("after step {}: sizes {} and global step {}, expected {} and {}".format(
                self.steps, sizes, step, expected, self.global_step))

    def _require(self, what: str, name: str, ids: np.ndarray, found: np.ndarray, expected: np.ndarray) -> None:
        differ = np.flatnonzero((found.view(np.uint32) != expected.view(np.uint32)).any(axis=1))
        if differ.size:
            at = int(differ[0])
            raise NotAsExpectedError(
                "{}: table {}, key {}: {} was looked up, expected {} ({} of {} rows differ)".format(
                    what, name, ids[at], found[at].tolist(), expected[at].tolist(), differ.size, len(ids)))


def ids_of(seed: int) -> Dict[str, np.ndarray]:
    """int64[BATCHES, WIDTH] for each table, small keys more often than large ones."""
    draw = np.random.RandomState(seed % (1 << 32))
    return {name: (draw.beta(0.5, 1.2, (BATCHES, WIDTH)) * KEYS).astype(np.int64) for name in sorted(TARGETS)}


def time_of(number: Any) -> Any:
    """Of a batch."""
    return 1000 + 4 * number


def require_checkpoint(prefix: str, saved: Saved) -> None:
    """Files of a checkpoint hold what the models were: rows, optimizer slots, counts and timestamps of every key."""
    with open_checkpoint(prefix) as checkpoint:
        for name, model in saved.models.items():
            found = {**checkpoints.by_key(checkpoint.blocks(name)), **checkpoints.by_key(checkpoint.candidates(name))}
            wanted = {key: _as_saved(feature) for key, feature in model.features.items()}
            wrong: List[int] = sorted(key for key in {*found, *wanted} if found.get(key) != wanted.get(key))
            if wrong:
                raise NotAsExpectedError("{}: table {}: {} keys differ, of them {}: {} was saved, expected {}".format(
                    prefix, name, len(wrong), wrong[0], _shown(found.get(wrong[0])), _shown(wanted.get(wrong[0]))))


def _as_saved(feature: Any) -> Any:
    numbers = (np.int64(feature.count).tobytes(), np.int64(feature.time).tobytes())
    if feature.row is None:
        return numbers
    slots = np.full(DIM, FIRST_ACCUMULATOR, np.float32) if feature.slots is None else feature.slots
    return (np.concatenate([feature.row, slots]).tobytes(), *numbers)


def _shown(values: Any) -> str:
    if values is None:
        return "nothing"
    numbers = [int(np.frombuffer(value, np.int64)[0]) for value in values[-2:]]
    row = np.frombuffer(values[0], np.float32).tolist() if len(values) == 3 else "no row"
    return "{}, count {}, time {}".format(row, *numbers)
