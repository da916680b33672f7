"""Estimators train, evaluate and predict between one ``init`` and its end, each in a graph of its own."""
import functools
import types

import pytest
import tensorflow as tf

from ascpipe.checkpoint.retention import is_delta
from ascpipe.tf.checkpoints import saver_hook
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import get_asc_insert_func
from mx_rec.core.embedding import sparse_lookup
from mx_rec.optimizers import lazy_adam
from tests.support.covering import some
from tests.tf import programs
from tests.tf.estimators import Losses, event_files
from tests.tf.test_deltas import INCREMENTAL
from tests.tf.test_saving_in_managed_sessions import tables

SOURCE = programs.batches(12)
PROBES = programs.batches(3, seed=5)
STEPS = len(SOURCE)

pytestmark = pytest.mark.timeout_s(180)


class Job:
    """An Estimator over ``SOURCE`` and ``PROBES``, in a folder of its own.

    Attributes:
        losses: of each training step.
        rings: how many the pipeline had when a graph was started.
    """

    def __init__(self, folder, tier="device", losses=()):
        self._tier = tier
        self._hook = Losses()
        self._hook.values.extend(losses)
        self.losses, self.rings = self._hook.values, []
        config = tf.compat.v1.estimator.RunConfig(
            tf_random_seed=1, save_checkpoints_steps=4, save_summary_steps=None, log_step_count_steps=None,
            session_config=tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD))
        self.estimator = tf.compat.v1.estimator.Estimator(self._model, str(folder), config)

    def train(self, steps):
        self.estimator.train(functools.partial(self._input, SOURCE, len(self.losses), True), [self._hook], steps)

    def evaluate(self, **kwargs):
        """The mean loss of ``PROBES``."""
        return self.estimator.evaluate(functools.partial(self._input, PROBES, 0, False), **kwargs)["loss"]

    def predict(self):
        return [found["score"] for found in self.results()]

    def results(self):
        return self.estimator.predict(functools.partial(self._input, PROBES, 0, False, has_labels=False))

    def train_and_evaluate(self):
        """By step, what the evaluation said, and whether it was of a delta."""
        found = {}

        class Export(tf.compat.v1.estimator.Exporter):
            """Is told of each evaluation."""

            name = "note"

            def export(self, *, checkpoint_path, eval_result, **_kwargs):
                found[eval_result["global_step"]] = eval_result["loss"], is_delta(checkpoint_path)

        tf.compat.v1.estimator.train_and_evaluate(
            self.estimator,
            tf.compat.v1.estimator.TrainSpec(functools.partial(self._input, SOURCE, 0, True), STEPS, [self._hook]),
            tf.compat.v1.estimator.EvalSpec(
                functools.partial(self._input, PROBES, 0, False), steps=None, exporters=Export(), start_delay_secs=0,
                throttle_secs=0))
        return found

    def _input(self, source, skip, training, has_labels=True):
        self._specs = programs.specs()
        data = programs.dataset(source).skip(skip).map(get_asc_insert_func(self._specs, is_training=training))
        return data.map(lambda batch: (batch, batch["label"]) if has_labels else batch).prefetch(8)

    def _model(self, features, labels, mode):
        training = mode == tf.compat.v1.estimator.ModeKeys.TRAIN
        made = tables(self._tier)
        rows = [sparse_lookup(made[place], spec, is_train=training, batch=features)
                for place, spec in zip((0, 0, 1), self._specs)]
        train = None
        loss = programs.model(rows, features["label"])
        if training:
            self._hook.loss = loss
            update = programs.apply(loss, [table.variable for table in made], lazy_adam.create_hash_optimizer(0.05))
            with tf.control_dependencies([update]):
                train = tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1)
        programs.start()
        self.rings.append(len(Process.current().running_pipeline().link.status()["rings"]))
        score = tf.reduce_sum(rows[1], axis=1)
        return tf.compat.v1.estimator.EstimatorSpec(mode, {"score": score}, loss, train)


@pytest.fixture(autouse=True)
def _closed_event_files():
    with event_files():
        yield


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """By tier, the losses of training without a pause, and its folder."""
    @functools.lru_cache(maxsize=None)
    def train(tier="device"):
        folder = tmp_path_factory.mktemp(tier)
        with programs.ascpipe():
            job = Job(folder, tier)
            job.train(STEPS)
        return job.losses, folder

    return train


def evaluated_alone(folder, steps, tier="device"):
    """By step, what an evaluation says that has a pipeline of its own."""
    with programs.ascpipe():
        job = Job(folder, tier)
        return {step: job.evaluate(checkpoint_path="{}/model.ckpt-{}".format(folder, step)) for step in steps}


@pytest.mark.parametrize("tier", some(["device", "host"], "host"))
def test_an_estimator_trains_evaluates_predicts_and_trains_on(tier, alone, tmp_path):
    with programs.ascpipe():
        job = Job(tmp_path, tier)
        job.train(5)
        first = [job.evaluate(), job.evaluate(), job.predict()]
        job.train(4)
        second = [job.evaluate(), job.predict()]
        job.train(3)
    assert job.losses == alone(tier)[0]
    assert first[0] == first[1] != second[0]
    assert len(first[2]) == len(second[1]) == 3 * 6 and first[2] != second[1]
    assert job.rings == [1, 2, 2, 2, 2, 2, 2, 2]
    assert evaluated_alone(tmp_path, [5, 9], tier) == {5: first[0], 9: second[0]}


def test_train_and_evaluate_trains_as_training_alone_does_and_evaluates_each_checkpoint(alone, tmp_path):
    with programs.ascpipe():
        job = Job(tmp_path)
        found = job.train_and_evaluate()
    assert job.losses == alone()[0]
    assert {step: (loss, False) for step, loss in evaluated_alone(tmp_path, [4, 8, 12]).items()} == found


def test_train_and_evaluate_with_deltas_trains_as_training_alone_does(alone, tmp_path, monkeypatch):
    whole, _ = alone()
    seconds = iter(range(1000, 100000))  # a clock that goes on by a second whenever a hook looks at it
    monkeypatch.setattr(saver_hook, "time", types.SimpleNamespace(monotonic=lambda: float(next(seconds))))
    with programs.ascpipe(**INCREMENTAL):
        job = Job(tmp_path)
        found = job.train_and_evaluate()
    assert job.losses == whole
    assert {delta for _, delta in found.values()} == {True, False}
    assert len({loss for loss, _ in found.values()}) == len(found) > 2


@pytest.mark.parametrize("tier", some(["device", "host"], "host"))
def test_an_older_checkpoint_is_evaluated_while_training_goes_on_as_if_it_were_not(tier, alone, tmp_path):
    with programs.ascpipe():
        job = Job(tmp_path, tier)
        job.train(5)
        older, newest = str(tmp_path / "model.ckpt-4"), job.evaluate()
        found = {4: job.evaluate(checkpoint_path=older), 5: newest}
        job.train(4)
        assert job.evaluate(checkpoint_path=older) == found[4]
        job.train(3)
    assert job.losses == alone(tier)[0]
    assert evaluated_alone(tmp_path, [4, 5], tier) == found and found[4] != found[5]


@pytest.mark.parametrize("tier", some(["device", "host"], "device"))
def test_an_estimator_predicts_and_evaluates_first_and_trains_then(tier, alone, tmp_path):
    with programs.ascpipe():
        job = Job(tmp_path, tier)
        job.train(5)
        told = [job.evaluate(), job.predict()]
    with programs.ascpipe():
        again = Job(tmp_path, tier, job.losses)
        results = again.results()
        assert [next(results)["score"], again.evaluate(), again.predict()] == [told[1][0], told[0], told[1]]
        again.train(7)
        assert [found["score"] for found in results] == told[1][1:]  # one that was left open goes on
        last = again.evaluate()
    assert again.losses == alone(tier)[0]
    assert evaluated_alone(tmp_path, [12], tier) == {12: last}


def test_evaluating_alone_takes_any_checkpoint_one_after_the_other(alone):
    found = evaluated_alone(alone()[1], [8, 4, 12, 8])
    assert len(set(found.values())) == 3
