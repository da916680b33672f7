"""A step that fails or is cancelled leaves no lease behind: TensorFlow destroys the step's state on both releases.

An exclusive hold waits for each lease and each share, so that each hold that is taken shows that none is left.
"""
import threading

import pytest
import tensorflow as tf

from ascpipe.layout import structs
from ascpipe.layout.words import WAIT_LEASE
from ascpipe.tf.running.hold_between_steps import hold
from tests.support.fake_daemon import FakeDaemon
from tests.support.op_graph import Run, build, session, stream_shape, table_shape
from tests.support.waiting import wait_until

STEPS = 20
TABLE = table_shape()
CHANNELS = {"training": stream_shape(), "evaluation": stream_shape(1, channel=1)}


class Hold(threading.Thread):
    """An exclusive hold, which is released when it was taken."""

    def __init__(self):
        super().__init__(daemon=True)
        self.is_taken = False
        self.start()

    def run(self):
        with hold(alone=True):
            self.is_taken = True

    def ends(self):
        self.join(10.0)
        return self.is_taken


class Failing:
    """Steps that have the lease when they stop: at an op that fails, or at a queue that stays empty."""

    def __init__(self, kind):
        self.graph = build([[number] for number in range(STEPS)], list(CHANNELS.values()), [TABLE])
        rows = self.graph.channels[list(CHANNELS).index(kind)].embeddings[0]
        with self.graph.graph.as_default():
            reached, empty = (tf.compat.v1.FIFOQueue(STEPS, [tf.int32]) for _ in range(2))
            with tf.control_dependencies([rows]):
                self.fails = tf.debugging.check_numerics(tf.constant(float("nan")), "of this step")
                arrive = reached.enqueue(0)
            with tf.control_dependencies([arrive]):
                self.waits = empty.dequeue()
            self.arrival = reached.dequeue()

    def fail(self, opened):
        with pytest.raises(tf.errors.InvalidArgumentError, match="of this step"):
            opened.run(self.fails)

    def run_out_of_time(self, opened):
        # the time may also end while the step waits for its batch, which is then cancelled
        with pytest.raises((tf.errors.DeadlineExceededError, tf.errors.CancelledError)):
            opened.run(self.waits, options=tf.compat.v1.RunOptions(timeout_in_ms=50))


@pytest.mark.parametrize("way", [Failing.fail, Failing.run_out_of_time], ids=["fails", "runs out of time"])
@pytest.mark.parametrize("kind", CHANNELS)
def test_after_each_failed_step_no_lease_is_left(kind, way):
    with FakeDaemon([TABLE], list(CHANNELS.values())):
        steps = Failing(kind)
        with session(steps.graph) as opened:
            without_lease = 0
            for _ in range(STEPS):
                way(steps, opened)
                without_lease += Hold().ends()
    assert without_lease == STEPS


@pytest.mark.parametrize("kind", CHANNELS)
def test_a_hold_waits_for_the_lease_of_a_step_until_the_session_is_closed(kind):
    with FakeDaemon([TABLE], list(CHANNELS.values())) as daemon:
        steps = Failing(kind)
        bell = daemon.bells[structs.BELL_TRAINER]
        for number in range(3):
            with session(steps.graph, initialize=number == 0) as opened:
                step = Run(opened, steps.waits)
                opened.run(steps.arrival)
                hold = Hold()
                wait_until(lambda: int(bell["waits_for"]) == WAIT_LEASE, what="the hold to wait")
                assert not hold.is_taken
                opened.close()
                assert isinstance(step.ended(), tf.errors.CancelledError)
            assert hold.ends()
