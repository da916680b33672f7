"""A hold stands between two steps: training waits for it, however long it lasts, and it waits for training."""
import os
import signal
import threading

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.checkpoint.contents import KeyBlock
from ascpipe.tf.running.hold_between_steps import hold
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import start_asc_pipeline
from mx_rec.util.ops import import_host_pipeline_ops
from tests.support.waiting import wait_until
from tests.tf import programs
from tests.tf.one_table import batch, one_table

pytestmark = pytest.mark.timeout_s(60)


@pytest.fixture
def program():
    """One table that is trained, in a session; five batches of key 1."""
    with one_table([batch(1)] * 5, [1]) as made:
        start_asc_pipeline()
        with programs.session(inter_op_parallelism_threads=2) as run:
            made.start(run)
            yield made


def in_a_thread(call):
    """Begins a call; returns its results, which has one when the call is over, and the thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    return results, thread


def trainer_waits_for(sentence):
    """Whether the trainer's waiter thread says that it waits for this."""
    waits = Process.current().running_pipeline().link.status()["waits"]
    return any(wait["waits_for"] == sentence for wait in waits)


@pytest.mark.parametrize("alone", [False, True])
def test_a_step_waits_for_a_hold_and_goes_on_after_it(program, alone):
    assert program.take() == [1]
    with hold(alone=alone) as held:
        results, thread = in_a_thread(program.take)
        wait_until(lambda: trainer_waits_for("another step to end"), what="the step to wait")
        assert (results, held.trained_batches(0)) == ([], 1)
    thread.join()
    assert results == [[0]]


def test_a_step_does_not_run_out_of_time_while_a_hold_lasts(monkeypatch):
    monkeypatch.setenv("ASCPIPE_WAIT_TIMEOUT_S", "1")
    with one_table([batch(1)] * 50, [1]) as program:
        start_asc_pipeline()
        with programs.session(inter_op_parallelism_threads=2) as run:
            program.start(run)
            wait_until(lambda: takes(program), what="the workers to have begun")
            with hold(alone=False):
                results, thread = in_a_thread(lambda: takes(program))
                thread.join(2.5)
                assert results == []
            thread.join()
            assert results == [True]


def takes(program):
    """Whether a step did not run out of time."""
    try:
        program.take()
    except tf.errors.InternalError as error:
        assert "wait_timeout_s" in str(error)
        return False
    return True


def test_evaluations_go_on_beside_a_save_and_wait_for_a_restore(program):
    assert program.take() == [1]
    with hold(alone=False), hold(alone=False):
        assert program.read() == {1: 0}
    with hold(alone=True):
        results, thread = in_a_thread(program.read)
        wait_until(lambda: trainer_waits_for("another step to end"), what="the evaluation to wait")
        assert results == []
    thread.join()
    assert results == [{1: 0}]


def test_a_hold_shows_the_table_as_it_is_after_the_last_step(program):
    program.take()
    program.take()
    with hold(alone=False) as held:
        table = held.table(0)
        used = int(table.header["entries_used"])
        assert table.entries[:used][["key", "count"]].tolist() == [(1, 2)]
        assert table.device[0][table.entries["slot"][0]].tolist() == [-1, -1]
        assert len(table.device) == 1


def test_a_hold_that_was_given_back_is_of_no_use(program):
    with hold(alone=True) as held:
        pass
    with pytest.raises(tf.errors.FailedPreconditionError, match="given back"):
        held.table(0)


def test_a_load_needs_a_hold_taken_alone_and_sensible_numbers(program):
    with hold(alone=False) as held, pytest.raises(tf.errors.InvalidArgumentError, match="taken alone"):
        held.begin_load(0, 1, 1)
    with hold(alone=True) as held:
        with pytest.raises(tf.errors.InvalidArgumentError, match="not more rows than keys"):
            held.begin_load(0, 1, 2)
        with pytest.raises(tf.errors.FailedPreconditionError, match="not being loaded"):
            held.end_load(0, 0, 0, -1, counting=True)
        with pytest.raises(tf.errors.InvalidArgumentError, match="no table 5"):
            held.begin_load(5, 1, 1)
    assert program.take() == [1]


def test_entries_are_written_into_a_load_and_nowhere_else(program):
    keys = KeyBlock(*np.array([[5, 7], [1, 1], [0, 0]], np.int64))
    with hold(alone=True) as held:
        for call in (lambda: held.write_entries(0, 0, keys, with_rows=True), lambda: held.end_entries(0)):
            with pytest.raises(tf.errors.FailedPreconditionError, match="not being loaded"):
                call()
        held.begin_load(0, 2, 2)
        for first in (-1, 1, 1 << 40):
            with pytest.raises(tf.errors.InvalidArgumentError, match="not among the 2 of this load"):
                held.write_entries(0, first, keys, with_rows=True)
        entries = held.table(0).entries
        entries["generation"][:2] = 3, 65535
        held.write_entries(0, 0, keys, with_rows=True)
        assert entries["key"][:2].tolist() == [5, 7]
        assert entries["generation"][:2].tolist() == [3, 65535]  # never set back: rows on disk are told apart by it
        entries["generation"][:2] = 0
        held.end_entries(0)
        held.abort_load(0)
    assert program.table.size() == 0
    program.take()
    assert program.table.size() == 1


def test_a_hold_waits_for_a_change_whose_step_was_cancelled():
    with one_table([batch(1)] * 9, [1], spec={"access_threshold": 1}) as program:
        change = import_host_pipeline_ops().set_threshold(tf.constant(5))
        start_asc_pipeline()
        with programs.session(inter_op_parallelism_threads=2) as run:
            program.start(run)
            program.take()
            pid = next(worker["pid"] for worker in Process.current().running_pipeline().link.status()["workers"]
                       if worker["kind"] == "table")
            os.kill(pid, signal.SIGSTOP)
            try:
                with pytest.raises(tf.errors.DeadlineExceededError):
                    run.run(change, options=tf.compat.v1.RunOptions(timeout_in_ms=300))
                results, thread = in_a_thread(seen_by_a_hold)
                wait_until(lambda: trainer_waits_for("the table worker to apply a change"), what="the hold to wait")
                assert results == []
            finally:
                os.kill(pid, signal.SIGCONT)
            thread.join()
            assert results == [5]


def seen_by_a_hold():
    """The access threshold of table 0."""
    with hold(alone=False) as held:
        return int(held.table(0).header["access_threshold"])


def test_without_a_pipeline_there_is_nothing_to_hold():
    says = "E205: The pipeline was (not started|stopped by)"
    with pytest.raises(tf.errors.FailedPreconditionError, match=says), hold(alone=False):
        pass
