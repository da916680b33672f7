"""MonitoredTrainingSession and Estimator raise every error of ours, within 10 s.

Neither may hang, try again, or end as if the data had ended.
"""
import contextlib
import os
import signal
import threading
import time

import pytest
import tensorflow as tf

from ascpipe.control import launch
from ascpipe.errors import AscpipeError
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import sparse_lookup
from mx_rec.optimizers import adagrad
from tests.support.daemons import ROOT
from tests.tf import programs

estimators = tf.compat.v1.estimator

PROMISED_S = 10.0  #: between an error and the exception
STEPS = 5  #: trained before anything happens
SOURCE = programs.batches(30, keys=30)

pytestmark = pytest.mark.timeout_s(120)


class AfterSomeSteps(tf.compat.v1.train.SessionRunHook):
    """Calls ``act`` once, after ``STEPS`` steps."""

    def __init__(self, act):
        self._act, self._steps = act, 0

    def after_run(self, run_context, run_values):
        self._steps += 1
        if self._steps == STEPS:
            self._act()


def train_in_a_session(hooks, rows, _folder):
    """Train for ever."""
    program = programs.Program(SOURCE, lambda: adagrad.create_hash_optimizer(0.3), rows=rows,
                               stages=lambda data: data.repeat().prefetch(4))
    tf.compat.v1.train.get_or_create_global_step()
    scaffold = tf.compat.v1.train.Scaffold(local_init_op=tf.group(
        program.iterator.initializer, tf.compat.v1.local_variables_initializer()))
    with tf.compat.v1.train.MonitoredTrainingSession(scaffold=scaffold, hooks=hooks) as run:
        while not run.should_stop():
            run.run(program.train)


def train_an_estimator(hooks, rows, folder):
    """The same; an Estimator makes the graph itself, so tables and the pipeline's start are in its model_fn."""
    specs = programs.specs()

    def input_fn():
        return programs.dataset(SOURCE).repeat().map(get_asc_insert_func(specs)).map(
            lambda batch: (batch, batch["label"])).prefetch(4)

    def model_fn(features, labels, mode):
        tables = [programs.table("user", rows), programs.table("item", rows)]
        looked_up = [sparse_lookup(tables[place], spec, batch=features) for place, spec in zip((0, 0, 1), specs)]
        loss = programs.model(looked_up, labels)
        update = programs.apply(loss, [t.variable for t in tables], adagrad.create_hash_optimizer(0.3))
        with tf.control_dependencies([update]):
            train = tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1)
        start_asc_pipeline()
        return estimators.EstimatorSpec(mode, loss=loss, train_op=train)

    config = estimators.RunConfig(save_summary_steps=None, save_checkpoints_steps=None, save_checkpoints_secs=None)
    estimators.Estimator(model_fn, str(folder), config).train(input_fn, hooks)


TRAIN = {"session": train_in_a_session, "estimator": train_an_estimator}


class Watch:
    """Says how long after an error the exception came: no earlier than the daemon gave up, by its own word."""

    def __init__(self):
        self._over = threading.Event()
        self._failed_at = None
        self._thread = threading.Thread(target=self._run)

    def begin(self, *, failed=False):
        """Look from now on; ``failed``: the error exists already."""
        self._failed_at = time.monotonic()
        if not failed:
            self._thread.start()

    def _run(self):
        while not self._over.is_set():
            asked_at = time.monotonic()
            try:
                if Process.current().running_pipeline().link.status()["state"] == "failed":
                    return
            except AscpipeError:
                return  # it is gone
            self._failed_at = asked_at
            self._over.wait(0.01)

    def seconds(self):
        """Since the last moment at which nothing was known to have failed."""
        raised_at = time.monotonic()
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        return raised_at - self._failed_at


def require_soon(manager, error, match, folder, act, rows=100):
    """Train until the error that ``act(watch)`` makes after some steps."""
    watch = Watch()
    try:
        with programs.ascpipe():
            with pytest.raises(error, match=match):
                TRAIN[manager]([AfterSomeSteps(lambda: act(watch))], rows, folder)
            assert watch.seconds() < PROMISED_S
    finally:
        tf.compat.v1.summary.FileWriterCache.clear()  # TensorFlow keeps its event files open


@contextlib.contextmanager
def faulty_workers(monkeypatch, folder):
    """Real workers that do what is written to the file this yields."""
    order = folder / "fault"
    monkeypatch.setattr(launch, "MODULE", "tests.support.standin_daemon")
    for name, value in {"PYTHONPATH": ROOT, "ASCPIPE_X_STANDIN_WORKERS": "tests.support.faulty_worker",
                        "ASCPIPE_X_STANDIN_FAULT": str(order)}.items():
        monkeypatch.setenv(name, value)
    yield order


def worker_fails(manager, kind, how, code, words, monkeypatch, folder):
    with faulty_workers(monkeypatch, folder) as order:

        def act(watch):
            watch.begin()
            written = folder / "written"  # a worker may look at any moment: it sees the whole order or none
            written.write_text("{} {}".format(kind, how))
            written.rename(order)

        match = "{}: {} worker 0 .*{}".format(code, kind, words)
        require_soon(manager, tf.errors.InternalError, match, folder / "model", act)


CODES = {"table": "E122", "key": "E130"}
ENDS = {"ValueError": r"exit code 1 \(ValueError: slot 7 has two keys\)", "SIGSEGV": "killed by SIGSEGV",
        "SIGABRT": "killed by SIGABRT"}
QUICK = {("session", "table", "ValueError"), ("estimator", "key", "SIGSEGV")}


@pytest.mark.parametrize("manager, kind, how", [
    pytest.param(manager, kind, how, marks=[] if (manager, kind, how) in QUICK else [pytest.mark.long])
    for manager in sorted(TRAIN) for kind in sorted(CODES) for how in ENDS])
def test_a_worker_that_ends_badly_is_an_exception_soon(manager, kind, how, monkeypatch, tmp_path):
    worker_fails(manager, kind, how, CODES[kind], ENDS[how], monkeypatch, tmp_path)


@pytest.mark.parametrize("manager, kind", [
    ("session", "table"), *[pytest.param(*case, marks=pytest.mark.long) for case in (
        ("session", "key"), ("estimator", "table"), ("estimator", "key"))]])
def test_a_worker_that_is_killed_again_and_again_is_an_exception_soon(manager, kind, monkeypatch, tmp_path):
    worker_fails(manager, kind, "SIGKILL", "E140", "was restarted 5 times.*killed by SIGKILL", monkeypatch, tmp_path)


@pytest.mark.usefixtures("private_daemon")
@pytest.mark.parametrize("manager, how", [
    ("session", "SIGTERM"), ("estimator", "SIGKILL"), *[pytest.param(*case, marks=pytest.mark.long) for case in (
        ("estimator", "SIGTERM"), ("session", "SIGKILL"))]])
def test_the_daemons_end_is_an_exception_soon(manager, how, tmp_path):
    error, code = {"SIGTERM": (tf.errors.InternalError, "E113"),
                   "SIGKILL": (tf.errors.FailedPreconditionError, "E110")}[how]

    def act(watch):
        watch.begin(failed=True)
        os.kill(Process.current().running_pipeline().link.daemon_pid, signal.Signals[how])

    require_soon(manager, error, code, tmp_path, act)
    with programs.ascpipe():  # which sweeps what a killed daemon left
        programs.Program(SOURCE, lambda: adagrad.create_hash_optimizer(0.3))


@pytest.mark.parametrize("manager", sorted(TRAIN))
def test_a_full_table_is_an_exception_soon(manager, tmp_path):
    started = time.monotonic()
    with pytest.raises(tf.errors.ResourceExhaustedError, match="(user|item).*device_vocabulary_size"):
        try:
            with programs.ascpipe():
                TRAIN[manager]([], 9, tmp_path)
        finally:
            tf.compat.v1.summary.FileWriterCache.clear()
    assert time.monotonic() - started < 30
