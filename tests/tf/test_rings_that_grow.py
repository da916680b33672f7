"""Nobody sets the size of a ring: rings follow the batches, and else the error says what to set."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.layout import structs
from ascpipe.layout.ring_shape import frame_bytes
from ascpipe.shm import memory
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import start_asc_pipeline
from tests.support.daemons import DaemonProcess
from tests.support.programs.deaths import Killer
from tests.tf import programs
from tests.tf.one_table import OneTable

KEYS = 50
MIB = 1 << 20


def ids_of(*sizes):
    """A batch for each size, in ids."""
    random = np.random.RandomState(1)
    return [{"ids": random.randint(0, KEYS, size)} for size in sizes]


def frame_mib(ids):
    return frame_bytes(((ids, 1),)) / MIB


def rings():
    return {ring["channel"]: ring["arena_bytes"] for ring in
            Process.current().running_pipeline().link.status()["rings"]}


class Counted:
    """The program of one table, in the order of the README; each trained occurrence of a key takes one off its row."""

    def __init__(self, batches, asked=(0,), prefetch=4):
        self._batches = batches
        self.program = OneTable(batches, asked, stages=lambda data: data.prefetch(prefetch))
        start_asc_pipeline()
        self.run = programs.session()
        self.program.start(self.run)
        self.counts = np.zeros(KEYS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run.close()

    def step(self, number):
        """Train a batch; what it looked up is what the batches before it have left."""
        ids = self._batches[number]["ids"]
        rows, _ = self.run.run([self.program.rows, self.program.train])
        np.testing.assert_array_equal(rows[:, 0], 1 - self.counts[ids])
        self.counts += np.bincount(ids, minlength=KEYS)

    def steps(self):
        for number in range(len(self._batches)):
            self.step(number)

    def evaluate(self):
        """Every row that is asked for is as training has left it."""
        rows = self.run.run(self.program.eval_rows)
        known = np.where(self.counts > 0, 1 - self.counts, 0)  # a key that was never trained reads 0
        np.testing.assert_array_equal(rows[:, 0], known[self.program.asked])


@pytest.mark.usefixtures("private_daemon")
@pytest.mark.timeout_s(240)
def test_a_first_batch_larger_than_the_default_ring_trains():
    size = 4_300_000
    assert frame_mib(size) > 256
    with programs.ascpipe(), Counted(ids_of(size, 10, size, 7), prefetch=1) as counted:
        counted.steps()
        assert rings()["train"] >= 256 * MIB


@pytest.mark.usefixtures("private_daemon")
def test_small_batches_take_little_memory():
    with programs.ascpipe(), Counted(ids_of(*[100] * 40)) as counted:
        counted.steps()
        counted.evaluate()
        assert rings() == {"train": MIB, "eval": MIB}


@pytest.mark.usefixtures("private_daemon")
@pytest.mark.timeout_s(240)
def test_batches_that_become_larger_and_smaller_again_all_train():
    sizes = [int(30 * 1.5 ** n) for n in range(24)]
    with programs.ascpipe(), Counted(ids_of(*sizes, *sizes[::-1], *sizes), prefetch=6) as counted:
        counted.steps()
        assert frame_mib(sizes[-1]) < rings()["train"] / MIB < 9 * 1.2 * frame_mib(sizes[-1])


@pytest.mark.usefixtures("private_daemon")
def test_an_evaluation_batch_gets_its_room_too():
    asked = np.arange(100_000) % KEYS
    assert frame_mib(len(asked)) > 5
    with programs.ascpipe(), Counted(ids_of(*[1000] * 6), asked=asked) as counted:
        for number in range(6):
            counted.step(number)
            counted.evaluate()
        assert rings()["eval"] > 5 * MIB


@pytest.mark.usefixtures("private_daemon")
@pytest.mark.timeout_s(240)
def test_workers_that_are_killed_while_the_ring_grows_change_nothing():
    sizes = [int(200 * 1.09 ** n) for n in range(90)]
    trained = 0
    with programs.ascpipe(), Counted(ids_of(*sizes), prefetch=5) as counted:
        with Killer(["table", "key"], 6, 3, lambda: trained) as killer:
            while trained < len(sizes):
                counted.step(trained)
                trained += 1
        assert killer.killed >= 4
        assert rings()["train"] > frame_mib(sizes[-1]) * MIB
        counted.evaluate()


def failing_text(counted, number):
    """Of a step whose batch does not fit; those around it train, as if it had not been there."""
    with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        counted.step(number)
    assert "Nothing was lost" in str(caught.value)
    return str(caught.value)


def needs(ids, has):
    return "needs {} bytes in the ring, which has {}".format(frame_bytes(((ids, 1),)), has)


def test_a_private_daemon_whose_ring_was_set_names_the_variable(monkeypatch):
    monkeypatch.setenv("ASCPIPE_RING_BYTES", str(MIB))
    with programs.ascpipe(), Counted(ids_of(10, 20_000, 10)) as counted:
        counted.step(0)
        text = failing_text(counted, 1)
        for words in (needs(20_000, MIB), "environment variable ASCPIPE_RING_BYTES", "ring_bytes in the file"):
            assert words in text
        counted.step(2)


def test_rings_of_a_named_daemon_grow_where_their_size_is_not_set(monkeypatch):
    monkeypatch.delenv("ASCPIPE_RING_BYTES", raising=False)
    daemon = DaemonProcess("grown")
    try:
        with programs.ascpipe(daemon="grown"), Counted(ids_of(10, 30_000, 10)) as counted:
            assert rings()["train"] == MIB
            counted.steps()
            assert rings()["train"] > frame_mib(30_000) * MIB > MIB
    finally:
        daemon.end()


def test_a_named_daemon_says_how_to_start_it_again():
    daemon = DaemonProcess("mine", ring_bytes=MIB)
    try:
        with programs.ascpipe(daemon="mine"), Counted(ids_of(10, 20_000, 10)) as counted:
            counted.step(0)
            text = failing_text(counted, 1)
            for words in (needs(20_000, MIB), "start the daemon again", "ascpipe start --ring-bytes", "ring_bytes in"):
                assert words in text
            counted.step(2)
    finally:
        daemon.end()


@pytest.mark.timeout_s(120)
def test_a_batch_beyond_the_share_of_all_rings_names_share_and_settings(monkeypatch):
    monkeypatch.setenv("ASCPIPE_RING_PERCENT", "1")
    share = -(-max(MIB, memory.limit_bytes() // 100) // structs.PAGE) * structs.PAGE
    size = share // 64 + 1000
    with programs.ascpipe(), Counted(ids_of(10, size, 10)) as counted:
        counted.step(0)
        text = failing_text(counted, 1)
        for words in (needs(size, MIB), "all rings together may have {} ".format(share), "ASCPIPE_RING_PERCENT",
                      "ASCPIPE_RING_BYTES, for each ring", "ring_bytes in the file that ASCPIPE_CONFIG names"):
            assert words in text
        counted.step(2)
