"""Evaluation that is fetched in the run that trains gives the rows of before the step, of each key its own."""
import itertools
import threading

import numpy as np
import pytest
import tensorflow as tf

from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.util.initialize import get_initializer
from tests.support.covering import some
from tests.support.on_disk import on_disk
from tests.tf import programs

KEYS = 150
BATCH = 12
EVERY_KEY = np.arange(1, KEYS + 1)
#: Where rows live: on the device alone, mostly at home, at home only.
TIERS = {"device": {"device_vocabulary_size": KEYS},
         "host": {"device_vocabulary_size": 2 * BATCH, "host_vocabulary_size": KEYS},
         "disk": on_disk(2 * BATCH, KEYS),
         "expansion": {"device_vocabulary_size": 1}}
STEPS = 500  #: of each of the runs that add up to 2,000 in a tier

pytestmark = pytest.mark.timeout_s(120)


def batches(seed):
    random = np.random.RandomState(seed)
    return np.stack([random.choice(EVERY_KEY, BATCH, replace=False) for _ in range(400)])


class Counting:
    """Tables whose rows say whose they are: [key, how often the key was trained], zeros of a key that never was.

    Args:
        sizes: arguments of ``create_table``.
        names: of the tables, each with one feature.
        modify: look up tensors, and let graph modification do the rest.
        after_training: take the evaluation's batch when the step has trained.

    Attributes:
        taken: of a step, by table: ids, their rows, and the evaluation's rows of every key.
        train: the train op.
    """

    def __init__(self, sizes, names=("ids",), modify=False, after_training=False):
        self._modify = modify
        tables = [create_table(tf.int64, 2, name, tf.compat.v1.zeros_initializer(), **sizes) for name in names]
        data = {name: batches(seed) for seed, name in enumerate(names)}
        self.iterator, batch, rows = self._look_up(tables, tf.data.Dataset.from_tensor_slices(data).repeat(), True)
        step = tf.compat.v1.train.get_or_create_global_step()
        # The first column becomes the key, the second one grows by one.
        losses = [tf.reduce_sum(tf.square(row[:, 0] - tf.cast(batch[name], tf.float32))) / 2 - tf.reduce_sum(row[:, 1])
                  for name, row in zip(names, rows)]
        do_merge_lookup() if modify else None
        trained, targets = programs.trained(*tables)
        gradients = tf.gradients(tf.add_n(losses), trained)
        self.train = programs.optimizer("gradient_descent", 1.0).apply_gradients(
            list(zip(gradients, targets)), global_step=step)
        every_key = tf.data.Dataset.from_tensors(dict.fromkeys(names, EVERY_KEY)).repeat()
        self.eval_iterator, _, everybody = self._look_up(tables, every_key, False, [self.train] * after_training)
        self.taken = [(batch[name], row, everyone) for name, row, everyone in zip(names, rows, everybody)]
        self.initialize = None if modify else [self.iterator.initializer, self.eval_iterator.initializer]
        if modify:
            modify_graph_and_start_emb_cache()
            self.initialize = [get_initializer(True), get_initializer(False)]
        else:
            start_asc_pipeline()

    def _look_up(self, tables, data, training, after=()):
        names = [table.table_name for table in tables]
        specs = [FeatureSpec(name, table_name=name, index_key=name) for name in names]
        if not self._modify:
            data = data.map(get_asc_insert_func(specs, is_training=training))
        iterator = tf.compat.v1.data.make_initializable_iterator(data.prefetch(4))
        with tf.control_dependencies(after):
            batch = iterator.get_next()
        rows = [sparse_lookup(table, batch[table.table_name] + 0, modify_graph=True, is_train=training)
                if self._modify else sparse_lookup(table, spec, batch=batch, is_train=training)
                for table, spec in zip(tables, specs)]
        return iterator, batch, rows


def require_own_rows(taken):
    """Each key has its own row, as the step found it; how many batches were trained before it, by table."""
    found = []
    for ids, rows, everyone in taken:
        trained = everyone[:, 1] > 0
        assert np.array_equal(everyone[:, 0], np.where(trained, EVERY_KEY, 0)), "rows of other keys"
        assert np.array_equal(everyone[ids - 1], rows), "not the rows that the step found"
        found.append(int(everyone[:, 1].sum()) // BATCH)
    return found


def run_in_a_session(program, threads, trainers):
    """Results of STEPS runs of several threads."""
    results, turns = [], itertools.count()
    with programs.session(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads) as run:
        run.run(program.initialize)
        run.run(tf.compat.v1.global_variables_initializer())
        coordinator = tf.train.Coordinator()

        def train():
            with coordinator.stop_on_exception():
                while next(turns) < STEPS and not coordinator.should_stop():
                    results.append(run.run([program.taken, program.train])[0])

        workers = [threading.Thread(target=train, daemon=True) for _ in range(trainers)]
        for worker in workers:
            worker.start()
        coordinator.join(workers)
    return results


class EvaluationHook(tf.compat.v1.train.SessionRunHook):
    """Asks for evaluation rows in every run, as programs do that watch a validation loss."""

    def __init__(self, taken):
        self._taken, self.results = taken, []

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(self._taken)

    def after_run(self, run_context, run_values):
        self.results.append(run_values.results)


def run_in_a_hook(program, threads, trainers):
    """The same in a MonitoredTrainingSession, one of whose hooks asks for the rows."""
    assert trainers == 1
    hook = EvaluationHook(program.taken)
    scaffold = tf.compat.v1.train.Scaffold(local_init_op=tf.group(*program.initialize))
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads,
                                      use_per_session_threads=True)
    with tf.compat.v1.train.MonitoredTrainingSession(scaffold=scaffold, hooks=[hook], config=config) as run:
        for _ in range(STEPS):
            run.run(program.train)
    return hook.results


def require_the_state_before_each_step(tier, runs, threads, trainers=1, **program):
    with programs.ascpipe(use_dynamic_expansion=tier == "expansion"):
        found = [require_own_rows(taken) for taken in runs(Counting(TIERS[tier], **program), threads, trainers)]
    for trained in zip(*found):
        assert sorted(trained) == list(range(STEPS))  # the steps before each: none, one, two, ...
        assert trainers > 1 or list(trained) == sorted(trained)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("runs", [run_in_a_session, run_in_a_hook])
@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
@pytest.mark.each_value
def test_evaluation_in_the_training_run_reads_each_keys_row_of_before_the_step(tier, runs, threads):
    require_the_state_before_each_step(tier, runs, threads)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
@pytest.mark.each_value
def test_so_it_does_beside_other_threads_that_train_two_tables(tier, threads):
    require_the_state_before_each_step(tier, run_in_a_session, threads, trainers=3, names=("ids", "others"))


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
def test_so_it_does_in_a_graph_that_is_modified(tier):
    require_the_state_before_each_step(tier, run_in_a_session, 4, trainers=2, modify=True)


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
def test_an_evaluation_whose_batch_is_taken_after_training_reads_the_state_after_the_step(tier):
    with programs.ascpipe(use_dynamic_expansion=tier == "expansion"):
        program = Counting(TIERS[tier], after_training=True)
        with programs.session(inter_op_parallelism_threads=4) as run:
            run.run([*program.initialize, tf.compat.v1.global_variables_initializer()])
            for step in range(50):
                (ids, rows, everyone), = run.run([program.taken, program.train])[0]
                trained = everyone[:, 1] > 0
                assert np.array_equal(everyone[:, 0], np.where(trained, EVERY_KEY, 0))
                assert np.array_equal(everyone[ids - 1], np.stack([ids, rows[:, 1] + 1], axis=1))
                assert everyone[:, 1].sum() == BATCH * (step + 1)
