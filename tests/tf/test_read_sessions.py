"""Programs that end, fail or begin again while ``asc.data.read`` reads: no hang, and no thread is left."""
import os
import signal
import threading

import numpy as np
import psutil
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import AscpipeError
from tests.support import tfrecords
from tests.support.daemons import ROOT
from tests.support.tensorflows import IS_TENSORFLOW_1
from tests.support.waiting import wait_until
from tests.tf.test_read_positions import program, read, records

v1 = tf.compat.v1
pytestmark = [pytest.mark.timeout_s(120), pytest.mark.usefixtures("fork_server")]


@pytest.fixture
def files(tmp_path):
    return [tfrecords.write(tmp_path / "{}.tfrecord".format(name), records(count)) for name, count in
            (("a", 30), ("b", 47))]


def use(files, batches, **given):
    """Read some batches in a session of its own."""
    with tf.Graph().as_default(), v1.Session() as session:
        following = v1.data.make_one_shot_iterator(read(files, epochs=None, **given).prefetch(3)).get_next()
        for _ in range(batches):
            session.run(following)


@pytest.fixture
def no_thread_is_left(files):
    """TensorFlow keeps some threads after the first session and the first training. Afterwards, there are no more."""
    use(files, 1)
    with program(lambda: read(files)) as run:
        run.begin()
    del run
    before = settled()
    yield
    wait_until(lambda: psutil.Process().num_threads() <= before, 20.0, "the threads of readers to end")


def settled():
    """Number of threads of this process when it no longer changes."""
    counts = []
    while len(counts) < 5 or len(set(counts[-5:])) > 1:
        counts.append(psutil.Process().num_threads())
        threading.Event().wait(0.05)
    return counts[-1]


@pytest.mark.parametrize("readers", [1, 4])
@pytest.mark.parametrize("batches", [0, 1, 3])
@pytest.mark.usefixtures("no_thread_is_left")
@pytest.mark.each_value
def test_sessions_that_end_in_the_middle(files, readers, batches):
    for _ in range(10):
        use(files, batches, readers=readers, read_ahead=2)


@pytest.mark.usefixtures("no_thread_is_left")
def test_iterators_that_are_initialized_again_and_again(files):
    with tf.Graph().as_default(), v1.Session() as session:
        iterator = v1.data.make_initializable_iterator(read(files, epochs=None, readers=2).prefetch(3))
        following = iterator.get_next()["user"]
        orders = set()
        for number in range(100):
            session.run(iterator.initializer)
            for _ in range(number % 4):
                orders.add(session.run(following).tobytes())
        assert len(orders) == 150


def test_reinitializable_and_feedable_iterators(files):
    with tf.Graph().as_default(), v1.Session() as session:
        first, other = read(files, shuffle=False), read(files[1:], shuffle=False)
        iterator = v1.data.Iterator.from_structure(v1.data.get_output_types(first), v1.data.get_output_shapes(first))
        begin = [iterator.make_initializer(first), iterator.make_initializer(other)]
        following = iterator.get_next()["label"]
        handle = v1.placeholder(tf.string, [])
        fed = v1.data.Iterator.from_string_handle(handle, v1.data.get_output_types(first),
                                                  v1.data.get_output_shapes(first)).get_next()["user"]
        one_shot = session.run(v1.data.make_one_shot_iterator(other).string_handle())
        for _ in range(3):
            for op in begin:
                session.run(op)
                assert session.run(following).tolist() == [0, 1] * 4
        assert session.run(fed, {handle: one_shot})[:, 0].tolist() == [number * number % 37 for number in range(8)]


@pytest.mark.parametrize("steps", range(4))
@pytest.mark.usefixtures("no_thread_is_left")
def test_an_error_of_the_program_while_batches_are_read(files, steps):
    """As in a program that calls init twice: the session is closed while readers and prefetch threads run."""
    for readers in (1, 3):
        with pytest.raises(AscpipeError, match="E262"), \
                program(lambda: read(files, epochs=None, readers=readers)) as run:  # noqa: B023
            run.begin().steps(steps)
            asc.init()
    del run


@pytest.mark.usefixtures("no_thread_is_left")
def test_the_pipeline_ends_while_batches_are_read(files):
    with program(lambda: read(files, epochs=None)) as run:
        run.begin().steps(3)
        asc.shutdown()
        with pytest.raises(tf.errors.OpError):
            run.steps()
    del run


def test_a_step_that_fails_trains_the_next_batch_afterwards(files):
    with program(lambda: read(files, shuffle=False)) as run:
        run.begin()
        failing = v1.py_func(lambda _: 1 // 0, [run.users], tf.int64)
        assert run.steps(1)[0][1] == [[number * number % 37, number % 11] for number in range(8)]
        with pytest.raises(tf.errors.OpError, match="division"):
            run.session.run([failing])
        assert run.steps(1)[0][1][0] == [16 * 16 % 37, 16 % 11]


def test_after_a_timeout_of_a_step_that_waits_for_data_each_step_fails_and_a_restore_reads_on(files, tmp_path):
    """As in TensorFlow, an iterator whose read was cancelled returns no further batch. No record is skipped.

    In TensorFlow 2.15, the prefetch that it adds itself then ends.
    """
    opened, calls = threading.Event(), []

    def wait(users):
        calls.append(len(users))
        if len(calls) > 3 and not opened.is_set():
            opened.wait(30)
        return users

    def build(pauses=True):
        data = read(files, shuffle=False)
        return data.map(lambda batch: {**batch, "user": tf.reshape(
            tf.numpy_function(wait, [batch["user"]], tf.int64), [-1, 2])}) if pauses else data

    with program(lambda: build(pauses=False)) as run:
        expected = [users for _, users in run.begin().steps()]
    with program(build) as run:
        found = [users for _, users in run.begin().steps(3)]
        timer = threading.Timer(0.5, opened.set)  # the run returns when the function has returned
        timer.start()
        with pytest.raises(tf.errors.DeadlineExceededError):
            run.session.run(run.train, options=v1.RunOptions(timeout_in_ms=100))
        timer.join()
        for _ in range(3):
            with pytest.raises(tf.errors.CancelledError if IS_TENSORFLOW_1 else tf.errors.OutOfRangeError):
                run.session.run(run.train)
        prefix = run.saver.save(run.session, str(tmp_path / "model"))
    with program(build) as run:
        run.saver.restore(run.session, prefix)
        assert found + [users for _, users in run.begin().steps()] == expected


def test_a_dataset_in_a_python_function(files):
    def total(_):
        with tf.Graph().as_default(), v1.Session() as session:
            following = v1.data.make_one_shot_iterator(read(files, epochs=1)).get_next()["user"]
            return np.int64(sum(len(session.run(following)) for _ in range(10)))

    with tf.Graph().as_default(), v1.Session() as session:
        dataset = tf.data.Dataset.range(2).map(lambda number: v1.py_func(total, [number], tf.int64))
        following = v1.data.make_one_shot_iterator(dataset).get_next()
        assert [session.run(following) for _ in range(2)] == [77, 77]


def test_ignored_errors_skip_a_batch(tmp_path):
    content = bytearray(tfrecords.content(records(40)))
    content[30] ^= 1
    path = tmp_path / "a.tfrecord"
    path.write_bytes(content)
    with tf.Graph().as_default(), v1.Session() as session:
        dataset = read([str(path)], epochs=1, shuffle=False).apply(tf.data.experimental.ignore_errors())
        following = v1.data.make_one_shot_iterator(dataset).get_next()["user"]
        assert [session.run(following)[0, 1] for _ in range(4)] == [number % 11 for number in (8, 16, 24, 32)]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(following)


@pytest.mark.usefixtures("no_thread_is_left")
def test_many_sessions_leave_no_files_and_little_memory(files):
    for _ in range(10):
        use(files, 2, readers=2)
    process = psutil.Process()
    opened, before = process.num_fds(), process.memory_info().rss
    for _ in range(60):
        use(files, 2, readers=2)
    wait_until(lambda: process.num_fds() <= opened, 10.0, "files to be closed")
    assert process.memory_info().rss < before + (60 << 20)


PROGRAM = """
import os, signal, sys, tensorflow as tf, ascpipe.tf as asc
tf.compat.v1.disable_eager_execution()
how, *files = sys.argv[1:]
specs = {"user": tf.io.FixedLenFeature([2], tf.int64)}
iterator = tf.compat.v1.data.make_initializable_iterator(
    asc.data.read(files, specs, 8, epochs=None, readers=3).prefetch(4))
following = iterator.get_next()
config = tf.compat.v1.ConfigProto(use_per_session_threads=True)
with tf.compat.v1.Session(config=config) as session:
    session.run(iterator.initializer)
    session.run(following)
    if how == "fork":
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            with tf.compat.v1.Session(config=config) as other:
                other.run(iterator.initializer)
                found = other.run(following)["user"].shape
            os._exit(0 if found == (8, 2) else 1)
        assert os.waitpid(child, 0)[1] == 0
        session.run(following)
    print("reads", flush=True)
    while how == "interrupt":
        session.run(following)
    if how == "exit":
        sys.exit(0)
    if how == "raise":
        raise ValueError("on purpose")
"""


@pytest.mark.parametrize("how, code", [("interrupt", 1), ("exit", 0), ("raise", 1), ("fork", 0), ("end", 0)])
def test_processes_that_end_while_batches_are_read(files, how, code, fork_server):
    environment = {**os.environ, "PYTHONPATH": ROOT, "TF_CPP_MIN_LOG_LEVEL": "3", "TEST_WHOLE_END": "1"}
    begun = fork_server.begin("python", ["-W", "ignore", "-c", PROGRAM, how, *files], ROOT, environment)
    says = begun.stdout.readline()
    if how == "interrupt":
        threading.Event().wait(0.3)
        begun.send_signal(signal.SIGINT)
    _, err = begun.communicate(60.0)
    assert says == "reads\n", err
    assert begun.returncode in (code, -signal.SIGINT if how == "interrupt" else code), err
