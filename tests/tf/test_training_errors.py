"""What goes wrong in a step is an exception that says what to do, and nothing is lost."""
import os
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.errors import GraphModificationError, TableUseError
from ascpipe.tf import patches
from ascpipe.tf.running.process import Process
from ascpipe.tf.starting import session_runs
from mx_rec.core.asc import start_asc_pipeline
from mx_rec.optimizers import adagrad
from mx_rec.util.initialize import init, terminate_config_initializer
from tests.support.waiting import wait_until
from tests.tf import programs

SOURCE = programs.batches(30, keys=30)


def optimizer():
    return adagrad.create_hash_optimizer(0.3)


def test_a_step_that_fails_after_its_plan_is_over_and_training_goes_on():
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer, start=False)
        poison = tf.compat.v1.placeholder_with_default(np.float32(0), [])
        checked = tf.debugging.check_numerics(program.loss / (1 - poison), "poisoned")
        with tf.control_dependencies([checked]):
            train = tf.group(program.train)
        start_asc_pipeline()
        with programs.session() as run:
            program.initialise(run)
            for step in range(len(SOURCE)):
                if step % 3 == 1:
                    with pytest.raises(tf.errors.InvalidArgumentError, match="poisoned"):
                        run.run([checked, *program.rows], {poison: 1})
                else:
                    run.run(train)
            # A batch whose plan was claimed counts as trained, whether or not the step succeeded.
            assert program.user.size() == len({int(k) for b in SOURCE for key in "ab" for k in b[key].reshape(-1)})


def test_a_batch_that_was_fetched_and_is_fed_back_is_refused_with_the_reason():
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer)
        with programs.session() as run:
            program.initialise(run)
            fetched = run.run(program.batch)
            without_ids = [key for key in fetched if key not in "abc"]  # has the number of the batch
            for fed in (list(fetched), without_ids):
                with pytest.raises(GraphModificationError, match="E271: Tensor .* was fed, but it determines the ids"):
                    run.run(program.train, {program.batch[key]: fetched[key] for key in fed})
            run.run(program.train)


def test_the_initializer_and_training_before_the_start_say_what_to_call():
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer, start=False)
        with programs.session() as run:
            with pytest.raises(tf.errors.FailedPreconditionError, match="start_asc_pipeline"):
                run.run(program.user.variable.initializer)


def test_after_the_start_tables_lookups_and_slots_are_complete():
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer)
        programs.start()
        with pytest.raises(EnvironmentError):
            programs.table("late")
        with pytest.raises(RuntimeError, match="started"):
            programs.apply(program.loss, [program.user.variable, program.item.variable], optimizer())
        assert program.user.capacity() == 100


def test_ops_of_an_ended_pipeline_say_so_and_a_new_one_can_start():
    with tf.Graph().as_default():
        init()
        program = programs.Program(SOURCE, optimizer)
        with programs.session() as run:
            program.initialise(run)
            run.run(program.train)
            terminate_config_initializer()
            with pytest.raises(tf.errors.OpError):
                run.run(program.train)
    assert len(programs.our_losses(SOURCE[:3], optimizer)) == 3


def test_a_saver_of_tensorflows_own_is_refused_and_the_error_says_whose_saves_tables(monkeypatch):
    with programs.ascpipe():
        for patch in (patches.SAVER_BUILD, patches.SAVER_SAVE, patches.SAVER_RESTORE):  # as if install() was not called
            monkeypatch.setattr(tf.compat.v1.train.Saver, patch.path.split(".")[1], patch.plain)
        program = programs.Program(SOURCE, optimizer, start=False)
        tf.compat.v1.train.Saver()
        start_asc_pipeline()
        with programs.session() as run, pytest.raises(
                TableUseError, match="E253: .*saves all rows of '(user|item)' without their keys. tf.train.Saver"):
            program.initialise(run)


def full_table(name="(user|item)"):
    return "{}.*device_vocabulary_size".format(name)


def test_a_full_table_names_itself_and_the_setting_and_loses_nothing():
    small = programs.batches(4, keys=5)
    with programs.ascpipe():
        program = programs.Program(small + SOURCE, optimizer, rows=9)
        with programs.session() as run:
            program.initialise(run)
            for _ in small:
                run.run(program.train)
            rows = (program.user.size(), program.item.size())
            with pytest.raises(tf.errors.ResourceExhaustedError, match=full_table()):
                run.run(program.train)
            assert (program.user.size(), program.item.size()) == rows


@pytest.mark.parametrize("end", ["close", "ctrl-c"])
@pytest.mark.parametrize("prefetch", [0, 4])
@pytest.mark.each_value
def test_the_program_can_end_while_a_step_waits_and_the_ring_is_full(end, prefetch, monkeypatch):
    monkeypatch.setenv("ASCPIPE_RING_FRAMES", "2")
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer, start=False, stages=lambda data: data.repeat().prefetch(prefetch)
                                   if prefetch else data.repeat())
        hold, arrival = _held_ticket(program)
        start_asc_pipeline()
        run = programs.session(inter_op_parallelism_threads=4)
        program.initialise(run)
        holder = threading.Thread(target=_call, args=(run, hold, []))
        holder.start()
        run.run(arrival)
        ender = threading.Thread(target=_when_a_step_waits, args=(
            run.close if end == "close" else lambda: os.kill(os.getpid(), signal.SIGINT),))
        ender.start()
        started = time.monotonic()
        with pytest.raises((KeyboardInterrupt, tf.errors.CancelledError)):
            run.run(program.train)
            ender.join()  # where the interrupt arrives if the step returned before it
        assert time.monotonic() - started < 30
        ender.join()
        run.close()
        holder.join()


def _when_a_step_waits(act):
    wait_until(lambda: any(wait["waits_for"].startswith("an earlier batch") for wait in _waits()))
    act()


def _call(run, fetch, errors):
    try:
        run.run(fetch)
    except tf.errors.OpError as error:
        errors.append(error)


def _held_ticket(program):
    """A fetch that takes a batch and keeps its ticket open for ever, and one that ends when it has arrived."""
    arrived, never = (tf.queue.FIFOQueue(1, [tf.int64], shapes=[[]]) for _ in range(2))
    ticket = tf.identity(program.batch["label_read_emb_key"])
    with tf.control_dependencies([arrived.enqueue(ticket)]):
        hold = [never.dequeue(), ticket]
    return hold, arrived.dequeue()


def _waits():
    return Process.current().running_pipeline().link.status()["waits"]


@pytest.mark.usefixtures("private_daemon")
def test_the_daemons_death_is_an_error_within_seconds():
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer, stages=lambda data: data.repeat().prefetch(4))
        with programs.session() as run:
            program.initialise(run)
            run.run(program.train)
            os.kill(Process.current().running_pipeline().link.daemon_pid, signal.SIGKILL)
            started = time.monotonic()
            with pytest.raises(tf.errors.OpError, match="supervisor"):
                while True:
                    run.run(program.train)
            assert time.monotonic() - started < 20
    assert len(programs.our_losses(SOURCE[:3], optimizer)) == 3  # which also sweeps what the dead daemon left


@pytest.mark.parametrize("text, is_hidden", [
    ("pybind11::error_already_set: MISMATCH of original and normalized active exception types: ORIGINAL CancelledError "
     "REPLACED BY KeyboardInterrupt: <EMPTY MESSAGE>", True), ("KeyboardInterrupt", False), ("MISMATCH", False)])
def test_an_interrupt_that_tensorflow_turned_into_another_error_is_an_interrupt_again(text, is_hidden, monkeypatch):
    error = RuntimeError(text)
    assert session_runs.hides_interrupt(error) is is_hidden

    def fail(*_):
        raise error

    with programs.ascpipe(), tf.Graph().as_default(), programs.session() as run:
        monkeypatch.setattr(patches.SESSION_CALL, "_plain", fail)
        with pytest.raises(KeyboardInterrupt if is_hidden else RuntimeError):
            run.run(tf.constant(1))
        monkeypatch.undo()
