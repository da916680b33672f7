"""Iterators of ``asc.data.read``: several of one dataset, in functions, in graphs of other processes, and saveables."""
import os

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.tf.data import reading
from tests.support import forked_calls, tfrecords
from tests.support.daemons import ROOT
from tests.support.examples import example, feature
from tests.tf.test_read_positions import SPECS, in_parts, program, read, records, whole

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("forked_programs")


@pytest.fixture
def files(tmp_path):
    return [tfrecords.write(tmp_path / "{}.tfrecord".format(name), records(count)) for name, count in
            (("a", 30), ("b", 47))]


def test_a_dataset_with_two_iterators_has_no_position(files, tmp_path, caplog):
    """Otherwise the iterator that reads first would take the start of the other one."""
    made = []

    def build():
        dataset = read(files)
        iterator = v1.data.make_initializable_iterator(dataset.prefetch(1))
        made[:] = [iterator.initializer, iterator.get_next()]
        return dataset

    with program(build) as run:
        run.begin().steps(4)
        prefix = run.saver.save(run.session, str(tmp_path / "model"))
    with program(build) as run:
        run.saver.restore(run.session, prefix)
        for op in made:
            run.session.run(op)
        assert len(run.begin().steps()) == 30
    assert "no reading position, because of a second iterator of the dataset (" in caplog.text


def test_iterators_of_two_datasets_of_the_same_files(files, tmp_path):
    made = []

    def build():
        iterator = v1.data.make_initializable_iterator(read(files).prefetch(1))
        made[:] = [iterator.initializer, iterator.get_next()["user"]]
        return read(files)

    expected = whole(build)
    with program(build) as run:
        found = run.begin().steps(4)
        prefix = run.saver.save(run.session, str(tmp_path / "model"))
    with program(build) as run:
        run.saver.restore(run.session, prefix)
        run.session.run(made[0])
        assert run.session.run(made[1]).tolist() == expected[0][1]
        assert found + run.begin().steps() == expected


@pytest.mark.parametrize("stage", ["FlatMap", "Interleave"])
def test_reads_in_functions_have_no_position(files, tmp_path, caplog, stage):
    def build():
        days = tf.data.Dataset.range(2)
        if stage == "FlatMap":
            return days.flat_map(lambda _: read(files, epochs=1))
        return days.interleave(lambda _: read(files, epochs=1), cycle_length=2)

    assert len(in_parts(build, tmp_path, [3])) == 3 + 20
    assert "no reading position, because of stage {}Dataset".format(stage) in caplog.text


@pytest.mark.parametrize("stage", ["cache", "concatenate", "zip", "ignore_errors", "repeat"])
def test_more_stages_that_break_the_position_are_named(files, tmp_path, caplog, stage):
    def build():
        dataset = read(files, epochs=1)
        return {"cache": dataset.cache, "concatenate": lambda: dataset.concatenate(read(files, seed=2, epochs=1)),
                "zip": lambda: tf.data.Dataset.zip((dataset, tf.data.Dataset.range(99))).map(lambda batch, _: batch),
                "ignore_errors": lambda: dataset.apply(tf.data.experimental.ignore_errors()),
                "repeat": lambda: dataset.prefetch(1).repeat(2)}[stage]()

    in_parts(build, tmp_path, [3])
    assert "no reading position, because of stage " in caplog.text


@pytest.mark.parametrize("prefetch", [False, True])
def test_a_saveable_of_an_iterator_is_refused_with_the_reason(files, tmp_path, prefetch):
    with tf.Graph().as_default(), v1.Session() as session:
        dataset = read(files)
        iterator = v1.data.make_initializable_iterator(dataset.prefetch(2) if prefetch else dataset)
        following = iterator.get_next()
        saver = v1.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        session.run(iterator.initializer)
        session.run(following)
        with pytest.raises(tf.errors.FailedPreconditionError, match="Remove the saveable of the iterator"):
            saver.save(session, str(tmp_path / "model"))


@pytest.mark.parametrize("how", ["single", "reduce"])
def test_datasets_without_an_iterator(files, how):
    with tf.Graph().as_default(), v1.Session() as session:
        dataset = asc.data.read(files, SPECS, 8)
        if how == "single":
            found = tf.reduce_sum(tf.data.experimental.get_single_element(dataset.take(1))["user"][:, 0])
            expected = sum(number * number % 37 for number in range(8))
        else:
            found = dataset.reduce(np.int64(0), lambda total, batch: total + tf.reduce_sum(batch["user"][:, 0]))
            expected = sum(number * number % 37 for count in (30, 47) for number in range(count))
        assert [session.run(found) for _ in range(3)] == [expected] * 3


EXPORT = """
import sys, tensorflow as tf, ascpipe.tf as asc
tf.compat.v1.disable_eager_execution()
found = asc.data.read(sys.argv[1], {"user": tf.io.FixedLenFeature([2], tf.int64)}, 4)
iterator = tf.compat.v1.data.make_initializable_iterator(found)
iterator.get_next()
tf.compat.v1.train.export_meta_graph(sys.argv[2])
"""


def test_a_graph_of_another_process_reads_its_own_files(files, tmp_path):
    """Two processes have different numbers of datasets, even if both count their datasets from the first one."""
    environment = {**os.environ, "PYTHONPATH": ROOT, "TF_CPP_MIN_LOG_LEVEL": "3"}
    arguments = ["-W", "ignore", "-c", EXPORT, files[1], tmp_path / "graph"]
    assert forked_calls.python(arguments, tmp_path, environment, 60.0)[0] == 0
    with tf.Graph().as_default() as graph, v1.Session() as session:
        ours = v1.data.make_initializable_iterator(asc.data.read(files[0], {"label": SPECS["label"]}, 3))
        label = ours.get_next()["label"]
        session.run(ours.initializer)
        assert session.run(label).tolist() == [0, 1, 0]
        tf.import_graph_def(v1.MetaGraphDef.FromString((tmp_path / "graph").read_bytes()).graph_def, name="other")
        session.run(graph.get_operation_by_name("other/MakeIterator"))
        assert session.run("other/IteratorGetNext:0")[:, 0].tolist() == [0, 1, 4, 9]
        numbers = [op.get_attr("source") for op in graph.get_operations() if op.type == "AscReadDataset"]
        assert len(set(numbers)) == 2 and abs(numbers[0] - numbers[1]) > 1000
        assert next(reading._sources) == numbers[0] + 1


def test_names_that_are_not_utf_8(tmp_path):
    path = os.path.join(os.fsencode(str(tmp_path)), b"a\xff.tfrecord")
    with open(path, "wb") as file:
        file.write(tfrecords.content([example([("a\udcff", feature("int64", [number]))]) for number in range(5)]))
    with tf.Graph().as_default(), v1.Session() as session:
        key = b"a\xff"
        for spec in (tf.io.FixedLenFeature([], tf.int64), tf.io.VarLenFeature(tf.int64)):
            batch = v1.data.make_one_shot_iterator(asc.data.read(os.fsdecode(path), {key: spec}, 5)).get_next()
            found = session.run(batch)
            assert list(found) == [key]
            assert getattr(found[key], "values", found[key]).tolist() == [0, 1, 2, 3, 4]
