"""What a program of a user finds on standard error that it has not written itself."""
import re
import threading

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.support.commands import ascpipe
from tests.tf import programs


def train():
    """Train a step of the smallest program, and go on while its pipeline runs."""
    with asc.pipeline():
        spec = asc.FeatureSpec("ids")
        data = tf.data.Dataset.from_tensors({"ids": np.arange(5)}).map(asc.insert_function(spec)).prefetch(1)
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        table = asc.create_table("ids", 2, initializer=tf.compat.v1.zeros_initializer(), device_vocabulary_size=9)
        rows = asc.sparse_lookup(table, spec, batch=iterator.get_next())
        train_op = asc.optimizers.GradientDescent(0.1).minimize(tf.reduce_sum(rows))
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            run.run(train_op)
            yield


def test_the_start_is_one_line_with_the_command_that_shows_the_daemon(private_daemon, capfd):
    for _ in train():
        (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("ascpipe: ")]
        command, name = re.search(r"\(pid \d+\) feeds 1 table; to watch it: (ascpipe top --name (\S+))$", line).groups()
        shown = ascpipe("status", "--name", name)
        assert shown.returncode == 0 and "ids" in shown.stdout and command.startswith("ascpipe top ")


def test_a_setting_silences_it(private_daemon, capfd, monkeypatch):
    monkeypatch.setenv("ASCPIPE_START_LINE", "0")
    for _ in train():
        assert "ascpipe: " not in capfd.readouterr().err


def test_graphs_that_join_a_pipeline_say_nothing(capfd):
    asc.init()
    try:
        for _ in range(2):
            with tf.Graph().as_default():
                spec = asc.FeatureSpec("ids")
                data = tf.data.Dataset.from_tensors({"ids": np.arange(5)}).map(
                    asc.insert_function(spec, training=False)).prefetch(1)
                iterator = tf.compat.v1.data.make_initializable_iterator(data)
                table = asc.create_table("ids", 2, initializer=tf.compat.v1.zeros_initializer(),
                                         device_vocabulary_size=9)
                rows = asc.sparse_lookup(table, spec, batch=iterator.get_next(), training=False)
                asc.start()
                with programs.session() as run:
                    run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
                    run.run(rows)
    finally:
        asc.shutdown()
    assert capfd.readouterr().err.count("ascpipe: daemon") == 1


def test_a_dataset_that_prefetches_after_a_shutdown_prints_nothing_and_its_reader_raises(private_daemon, capfd):
    goes_on, asked_again = threading.Event(), threading.Event()

    def batches():
        yield np.arange(5)
        goes_on.wait(20)
        yield np.arange(5)
        asked_again.set()  # the second batch was submitted
        yield np.arange(5)

    with tf.Graph().as_default():
        asc.init()
        spec = asc.FeatureSpec("ids")
        data = tf.data.Dataset.from_generator(batches, tf.int64, [5]).map(lambda ids: {"ids": ids})
        data = data.map(asc.insert_function(spec, training=False)).prefetch(8)
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        table = asc.create_table("ids", 2, initializer=tf.compat.v1.zeros_initializer(), device_vocabulary_size=9)
        rows = asc.sparse_lookup(table, spec, batch=iterator.get_next(), training=False)
        asc.start()
        with programs.session(inter_op_parallelism_threads=2) as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            run.run(rows)
            asc.shutdown()
            goes_on.set()
            assert asked_again.wait(20)
            assert "E205" not in capfd.readouterr().err
            with pytest.raises(tf.errors.FailedPreconditionError, match="E205: The pipeline was stopped"):
                run.run(rows)
