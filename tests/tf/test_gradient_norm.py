"""Clipping by the global norm is TensorFlow's over plain variables, where each occurrence of an id counts."""
import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf import clip_by_global_norm, global_norm, lookup_concat
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import FeatureSpec, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from tests.support.contrib import contrib
from tests.tf import programs

STEPS = 60
SOURCE = programs.batches(STEPS, keys=12, size=16)  # ids come several times in each batch
CLIP = 0.05  #: below most norms of these gradients
RELATIVE = 1e-5  #: of losses, over all steps: what holds without clipping, too
ROUNDING = 1e-6  #: of a norm: its squares are added in another order, in float32

OPTIMIZERS = {
    "adagrad": lambda: tf.compat.v1.train.AdagradOptimizer(0.3),
    "gradient_descent": lambda: tf.compat.v1.train.GradientDescentOptimizer(0.5),
    "lazy_adam": lambda: contrib("opt").LazyAdamOptimizer(0.05)}
OURS = {
    "adagrad": functools.partial(programs.optimizer, "adagrad", 0.3, initial_accumulator_value=0.1),
    "gradient_descent": functools.partial(programs.optimizer, "gradient_descent", 0.5),
    "lazy_adam": functools.partial(programs.optimizer, "lazy_adam", 0.05)}


def apply(clip, norms, loss, variables, sparse_optimizer, handles=None):
    """As ``programs.apply``, clipped; the norms are fetched with each step."""
    dense = tf.compat.v1.trainable_variables("dense")
    gated = tf.tuple(tf.gradients(loss, list(variables) + dense))
    clipped, norm = clip(gated, CLIP)
    norms.append(norm)
    sparse = sparse_optimizer.apply_gradients(list(zip(clipped, handles or variables)))
    with tf.control_dependencies([norm]):
        return tf.group(sparse, tf.compat.v1.train.GradientDescentOptimizer(0.1).apply_gradients(
            zip(clipped[len(variables):], dense)))


def clipped_with(monkeypatch, clip):
    monkeypatch.setattr(programs, "apply", functools.partial(apply, clip, []))


@pytest.fixture(scope="module")
def first():
    return programs.first_rows(SOURCE)


def plain(first, optimizer, monkeypatch):
    clipped_with(monkeypatch, tf.clip_by_global_norm)
    return programs.plain_losses(SOURCE, OPTIMIZERS[optimizer], first)


def differences(losses, wanted):
    return np.abs(np.array(losses) - np.array(wanted)) / np.array(wanted)


@pytest.mark.timeout_s(120)
@pytest.mark.parametrize("optimizer, arguments", [
    pytest.param("gradient_descent", {}, marks=pytest.mark.long), ("adagrad", {"rows": 40, "host_rows": 100}),
    ("lazy_adam", {"rows": 40, "host_rows": 100}), ("lazy_adam", {"use_dynamic_expansion": True})],
    ids=["device", "host", "host-adam", "expansion"])
def test_a_program_that_clips_trains_as_one_over_plain_variables(optimizer, arguments, first, monkeypatch):
    wanted = plain(first, optimizer, monkeypatch)
    clipped_with(monkeypatch, clip_by_global_norm)
    losses = programs.our_losses(SOURCE, OURS[optimizer], **arguments)
    assert differences(losses, wanted).max() < RELATIVE


def test_the_norm_of_tensorflow_clips_the_gradient_of_a_table_elsewhere(first, monkeypatch):
    wanted = plain(first, "gradient_descent", monkeypatch)
    losses = programs.our_losses(SOURCE, OURS["gradient_descent"])
    assert differences(losses, wanted).max() > 10 * RELATIVE


class Gradients:
    """A program with one table, its gradient, and the gradients of the rows that it looked up.

    Args:
        join: makes one tensor [batch, columns] of the rows of two features.
        change: what the program does with its gradients.
        spec: arguments of the FeatureSpecs; others are those of the table.
    """

    def __init__(self, source, join=None, change=lambda gradients: gradients, spec=None, **table):
        arguments = {"device_vocabulary_size": 50, **table}
        self.table = create_table(tf.int64, 3, "user", tf.compat.v1.random_normal_initializer(seed=5), **arguments)
        features = [FeatureSpec("a", table_name="user", **(spec or {})),
                    FeatureSpec("b", table_name="user", **(spec or {}))]
        self.iterator, self._batch = programs.insert(source, features)
        rows = [sparse_lookup(self.table, each, batch=self._batch, is_train=True) for each in features]
        joined = (join or (lambda tensors: tf.concat(tensors, 1)))([tf.reshape(rows[0], [-1, 9]), rows[1]])
        weights = np.linspace(-1, 2, 12).astype(np.float32)
        loss = tf.reduce_sum(tf.square(tf.sin(joined) * weights))
        self._occurrences = tf.gradients(loss, joined)[0]
        variables, handles = programs.trained(self.table)
        self.gradients = change(tf.gradients(loss, variables))
        self.norm = global_norm(self.gradients)
        self.plain = tf.linalg.global_norm(self.gradients)
        programs.optimizer("gradient_descent", 0.1).apply_gradients(zip(self.gradients, handles))
        start_asc_pipeline()

    def norms(self, run, skip=()):
        """Norm here, TensorFlow's over each occurrence, and TensorFlow's over each row."""
        batch, each, norm, rows = run.run([self._batch, self._occurrences, self.norm, self.plain])
        gradients = np.concatenate([each[:, :9].reshape(-1, 3), each[:, 9:]]).astype(np.float64)
        ids = np.concatenate([batch["a"].reshape(-1), batch["b"]])
        return norm, np.sqrt(np.square(gradients[~np.isin(ids, list(skip))]).sum()), rows


def one_step(**kwargs):
    """The norms of the first step."""
    skip = kwargs.pop("skip", ())
    with programs.ascpipe(use_dynamic_expansion=kwargs.pop("expansion", False)):
        program = Gradients(SOURCE, **kwargs)
        with programs.session() as run:
            run.run([program.iterator.initializer, tf.compat.v1.global_variables_initializer()])
            return program.norms(run, skip)


def close(norm, wanted):
    return abs(norm - wanted) < ROUNDING * wanted


@pytest.mark.parametrize("arguments", [
    {}, {"expansion": True}, {"join": lookup_concat},
    {"change": lambda gradients: [tf.IndexedSlices(tf.identity(g.values), tf.identity(g.indices), g.dense_shape)
                                  for g in gradients]}], ids=["device", "expansion", "lookup_concat", "gated"])
def test_each_occurrence_of_a_key_counts(arguments):
    norm, wanted, of_rows = one_step(**arguments)
    assert close(norm, wanted)
    assert not close(of_rows, wanted)


@pytest.mark.parametrize("join", [None, lookup_concat], ids=["lookup", "lookup_concat"])
def test_occurrences_of_padding_keys_do_not_count_as_they_train_nothing(join):
    padding = {"padding_keys": [0, 3], "padding_keys_mask": True, "padding_keys_len": 2}
    norm, wanted, _ = one_step(join=join, skip=[0, 3], **padding)
    assert close(norm, wanted)
    assert wanted < 0.95 * one_step(join=join)[1]


def test_occurrences_of_keys_that_are_not_admitted_do_not_count():
    counts = np.bincount(np.concatenate([SOURCE[0]["a"].reshape(-1), SOURCE[0]["b"]]), minlength=12)
    rare = np.flatnonzero(counts < 6).tolist()
    assert 0 < len(rare) < 12
    norm, wanted, _ = one_step(spec={"access_threshold": 6}, skip=rare)
    assert close(norm, wanted)


def scaled(by):
    return lambda gradients: [tf.IndexedSlices(by(g.values), g.indices, g.dense_shape) for g in gradients]


@pytest.mark.parametrize("by, factor", [
    (lambda values: values * 0.25, 0.25), (lambda values: tf.constant(3.0) * values / 8.0, 0.375),
    (lambda values: -tf.identity(values), 1.0)], ids=["times", "times-and-divided", "negated"])
def test_a_gradient_that_was_scaled_has_the_norm_that_its_occurrences_have_scaled(by, factor):
    norm, wanted, _ = one_step(change=scaled(by))
    assert close(norm, factor * wanted)


def test_a_gradient_that_was_changed_otherwise_counts_as_it_is_with_a_warning(caplog):
    norm, _, of_rows = one_step(change=scaled(lambda values: tf.clip_by_value(values, -0.1, 0.1)))
    assert norm == of_rows
    assert "changed by more than a scalar factor" in caplog.text


def test_norms_of_several_ranks_differ_and_a_warning_says_so(caplog):
    def of_two_ranks(gradients):
        process = Process.current()
        alone = process.configuration
        process.configuration = dataclasses.replace(alone, rank_size=2)
        global_norm(gradients)
        global_norm(gradients)
        process.configuration = alone
        return gradients

    one_step(change=of_two_ranks)
    assert caplog.text.count("ranks clip by different norms") == 1


def test_the_norm_of_what_was_clipped_is_that_which_was_asked_for():
    norm, wanted, _ = one_step(change=lambda gradients: clip_by_global_norm(gradients, 0.5)[0])
    assert wanted > 1
    assert abs(norm - 0.5) < 0.5 * ROUNDING


def test_other_gradients_count_as_tensorflow_counts_them():
    random = np.random.RandomState(3)
    dense, values = random.randn(4, 5).astype(np.float32), random.randn(3, 2).astype(np.float32)
    with tf.Graph().as_default(), programs.session() as run:
        gradients = [tf.constant(dense), None, tf.IndexedSlices(tf.constant(values), tf.constant([1, 1, 0]))]
        ours, theirs = clip_by_global_norm(gradients, 1.5), tf.clip_by_global_norm(gradients, 1.5)
        assert ours[0][1] is None
        found = run.run([ours[1], theirs[1], ours[0][0], theirs[0][0], ours[0][2].values, theirs[0][2].values])
        known = run.run(clip_by_global_norm(gradients, 1.5, use_norm=tf.constant(3.0))[0][0])
    for mine, his in zip(found[::2], found[1::2]):
        assert mine.tobytes() == his.tobytes()
    assert np.allclose(known, dense / 2)


def test_no_gradient_has_the_norm_zero():
    with tf.Graph().as_default(), programs.session() as run:
        assert run.run([global_norm([None]), tf.linalg.global_norm([None])]) == [0, 0]


@pytest.mark.parametrize("gradients", ["gradients", 3])
def test_what_is_no_list_of_gradients_is_refused(gradients):
    with tf.Graph().as_default(), pytest.raises(TypeError, match="expected a list or tuple"):
        global_norm(gradients)
