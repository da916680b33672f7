"""Every wait of an op ends: by cancellation, Ctrl-C, a stop, a timeout, or the end of the daemon."""
import os
import random
import signal
import threading
import time

import pytest
import tensorflow as tf

from ascpipe.layout import structs
from ascpipe.layout.words import TOUCHED, WAIT_KEYS, WAIT_LEASE, WAIT_NONE
from tests.support.fake_daemon import FakeDaemon, Words
from tests.support.held_threads import held, threads
from tests.support.op_graph import Run, build, session, stream_shape, table_shape
from tests.support.tensorflows import IS_TENSORFLOW_1
from tests.support.waiting import wait_until

TABLE = table_shape()
TRAIN = stream_shape()
EVAL = stream_shape(1, channel=1)
PROMPT_S = 1.0


def waits_for(daemon, what):
    return wait_until(lambda: int(daemon.bells[structs.BELL_TRAINER]["waits_for"]) == what, what="waits for")


@pytest.mark.parametrize("prefetch", [0, 100])
@pytest.mark.parametrize("frames", [2, 64])
@pytest.mark.each_value
def test_closing_the_session_ends_a_step_that_awaits_its_plan(frames, prefetch):
    with FakeDaemon([TABLE], [TRAIN], frames=frames) as daemon:
        daemon.pause()
        graph = build([[n] for n in range(200)], [TRAIN], [TABLE], prefetch=prefetch)
        with session(graph) as opened:
            step = Run(opened, graph.channels[0].embeddings[0])
            waits_for(daemon, WAIT_KEYS)
            began = time.monotonic()
            opened.close()
            assert isinstance(step.ended(), tf.errors.CancelledError)
            assert time.monotonic() - began < PROMPT_S


def test_initialising_the_iterator_does_not_wait_for_a_step_that_waits():
    with FakeDaemon([TABLE], [TRAIN], frames=2) as daemon:
        daemon.pause()
        graph = build([[n] for n in range(200)], [TRAIN], [TABLE], prefetch=100)
        with session(graph) as opened:
            step = Run(opened, graph.channels[0].embeddings[0])
            waits_for(daemon, WAIT_KEYS)
            began = time.monotonic()
            opened.run(graph.channels[0].iterator.initializer)
            assert time.monotonic() - began < PROMPT_S
            daemon.paused.clear()
            assert step.ended() is None


def test_ctrl_c_ends_a_wait_and_the_program_goes_on():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        daemon.pause()
        graph = build([[1], [2]], [TRAIN], [TABLE])
        with session(graph) as opened:
            def interrupt():
                waits_for(daemon, WAIT_KEYS)
                times.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

            times = []
            helper = threading.Thread(target=interrupt)
            helper.start()
            # A session of TensorFlow 2.15 raises RuntimeError, which init() converts. This test does not call init().
            with pytest.raises(KeyboardInterrupt if IS_TENSORFLOW_1 else (KeyboardInterrupt, RuntimeError)) as raised:
                opened.run(graph.channels[0].embeddings[0])
            assert raised.type is KeyboardInterrupt or "KeyboardInterrupt" in str(raised.value)
            assert time.monotonic() - times[0] < PROMPT_S
            helper.join()
            daemon.paused.clear()
            opened.run(graph.channels[0].embeddings[0])
            assert daemon.pipeline.table_size(0) == 1


def test_the_handler_of_ctrl_c_is_pythons_again_after_the_stop():
    with FakeDaemon([TABLE], [TRAIN]):
        pass
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(lambda: False, timeout_s=5.0)


def test_a_run_with_a_timeout_of_its_own_ends():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        daemon.pause()
        graph = build([[1]], [TRAIN], [TABLE])
        with session(graph) as opened:
            options = tf.compat.v1.RunOptions(timeout_in_ms=200)
            began = time.monotonic()
            with pytest.raises(tf.errors.DeadlineExceededError):
                opened.run(graph.channels[0].embeddings[0], options=options)
            assert time.monotonic() - began < PROMPT_S


def test_a_wait_that_takes_too_long_says_who_waits_for_what():
    with FakeDaemon([TABLE], [TRAIN], wait_timeout_s=0.2) as daemon:
        daemon.pause()
        graph = build([[1]], [TRAIN], [TABLE])
        with session(graph) as opened:
            why = r"table 'table0', batch 1: waited 0.2 s .* for the key worker to deduplicate its keys"
            with pytest.raises(tf.errors.InternalError, match=why):
                opened.run(graph.channels[0].embeddings[0])


def test_a_dead_supervisor_ends_every_wait_within_a_second():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        daemon.pause()
        graph = build([[1], [2]], [TRAIN], [TABLE])
        with session(graph) as opened:
            step = Run(opened, graph.channels[0].embeddings[0])
            waits_for(daemon, WAIT_KEYS)
            began = time.monotonic()
            daemon.lifeline.close()
            error = step.ended()
            assert isinstance(error, tf.errors.FailedPreconditionError)
            assert "E110: The ascpipe supervisor (pid {}) died".format(os.getpid()) in error.message
            assert time.monotonic() - began < PROMPT_S
            with pytest.raises(tf.errors.FailedPreconditionError, match="E110"):
                opened.run(graph.channels[0].embeddings[0])
            with pytest.raises(tf.errors.FailedPreconditionError, match="E110"):
                daemon.pipeline.table_size(0)


@pytest.mark.parametrize(("code", "text", "kind"), [
    (122, "E122: table worker 0 died of SIGSEGV. Restore from the last checkpoint", tf.errors.InternalError),
    (301, "ring damaged", tf.errors.DataLossError),
])
def test_a_failed_session_ends_every_wait_with_its_text(code, text, kind):
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        daemon.pause()
        graph = build([[1]], [TRAIN], [TABLE])
        with session(graph) as opened:
            step = Run(opened, graph.channels[0].embeddings[0])
            waits_for(daemon, WAIT_KEYS)
            daemon.fail(code, text)
            error = step.ended()
            assert isinstance(error, kind)
            assert "E{}: {}".format(code, text.replace("E122: ", "")) in error.message


def test_stopping_the_pipeline_ends_every_wait_and_later_runs_say_so():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        daemon.pause()
        graph = build([[1], [2]], [TRAIN], [TABLE], prefetch=2)
        with session(graph) as opened:
            step = Run(opened, graph.channels[0].embeddings[0])
            waits_for(daemon, WAIT_KEYS)
            daemon.pipeline.stop()
            assert isinstance(step.ended(), tf.errors.CancelledError)
            with pytest.raises(tf.errors.FailedPreconditionError, match="E205: The pipeline was stopped"):
                opened.run(graph.channels[0].embeddings[0])
            daemon.pipeline.stop()


def test_an_evaluation_waits_for_the_training_step_and_says_so():
    with FakeDaemon([TABLE], [TRAIN, EVAL]) as daemon:
        graph = build([[1], [2], [3]], [TRAIN, EVAL], [TABLE])
        train, evaluate = graph.channels
        with graph.graph.as_default():
            entered, go_on = threading.Event(), threading.Event()

            def hold(slots):
                entered.set()
                go_on.wait(20.0)
                return slots

            held = tf.compat.v1.py_func(hold, [train.plans[0].slots], tf.int32)
        with session(graph, threads=4) as opened:
            step = Run(opened, held)
            assert entered.wait(20.0)
            reading = Run(opened, evaluate.plans[0].slots)
            waits_for(daemon, WAIT_LEASE)
            go_on.set()
            assert step.ended() is None
            assert reading.ended() is None


def test_an_evaluation_whose_batch_is_closed_before_its_answer_was_copied_fails():
    with FakeDaemon([TABLE], [TRAIN, EVAL]) as daemon:
        graph = build([[1], [2]], [TRAIN, EVAL], [TABLE])
        others = threads()
        with session(graph, threads=1) as opened:
            of_tensorflow = threads() - others
            daemon.pause()
            step = Run(opened, graph.channels[1].plans[0].slots)
            waits_for(daemon, WAIT_KEYS)
            with held(of_tensorflow):
                daemon.paused.clear()
                waits_for(daemon, WAIT_NONE)  # the answer is there, and nobody copies it
                daemon.pipeline.stop()
            error = step.ended()
            assert isinstance(error, tf.errors.FailedPreconditionError)
            assert "was closed while it was read" in error.message


def test_a_forked_child_is_refused_and_its_end_disturbs_nobody():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1], [2]], [TRAIN], [TABLE], prefetch=2)
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0].slots)
            read_end, write_end = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    daemon.pipeline.table_size(0)
                except tf.errors.FailedPreconditionError as error:
                    os.write(write_end, error.message.encode())
                daemon.pipeline.stop()
                os._exit(0)
            os.close(write_end)
            text = os.read(read_end, 4096).decode()
            os.close(read_end)
            assert os.waitpid(child, 0)[1] == 0
            assert text.startswith("E204: process {} was forked from the trainer (pid {})".format(child, os.getpid()))
            opened.run(graph.channels[0].plans[0].slots)
            assert daemon.pipeline.table_size(0) == 2


class Hesitant(FakeDaemon):
    """Takes plans back while the trainer is about to claim them."""

    MOST = 40  # times of one plan

    def __init__(self, *arguments, **more):
        self.revoked = {}
        self._random = random.Random(7)
        super().__init__(*arguments, **more)

    def _write_plan(self, ring, index, table, where):
        super()._write_plan(ring, index, table, where)
        number = where[0]
        until = time.perf_counter() + self._random.uniform(0.0, 4e-4)
        while time.perf_counter() < until:
            pass
        if self.revoked.get(number, 0) < self.MOST and self._revoke(ring, index, table, Words(number, 0, False, False)):
            self.revoked[number] = self.revoked.get(number, 0) + (ring.word(number, index) == TOUCHED)
        return True


def test_a_plan_that_is_taken_back_just_before_the_claim_is_claimed_when_it_stands_again():
    with Hesitant([TABLE], [TRAIN]) as daemon:
        graph = build([[n, n + 1] for n in range(60)], [TRAIN], [TABLE])
        with session(graph) as opened:
            for _ in range(60):
                opened.run(graph.channels[0].embeddings[0])
        assert daemon.pipeline.table_size(0) == 61
        assert sum(daemon.revoked.values()) > 5


def test_a_step_that_waits_for_long_says_for_what_on_stderr_and_goes_on(capfd):
    with FakeDaemon([TABLE], [TRAIN], wait_timeout_s=50.0) as daemon:
        daemon.pause()
        graph = build([[1], [2]], [TRAIN], [TABLE])
        with session(graph) as opened:
            step = Run(opened, graph.channels[0].embeddings[0])
            said = wait_until(lambda: "".join(line for line in capfd.readouterr().err.splitlines()
                                              if line.startswith("ascpipe: ")))
            assert "batch 1, a step waits for 5 s for " in said
            assert "It goes on waiting, until wait_timeout_s (50 s)" in said
            daemon.paused.clear()
            assert step.ended() is None
