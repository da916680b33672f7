"""``asc.data.read(transform=...)``: a numpy function on each batch. Batches keep their order and their position."""
import re
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import ArgumentError, TransformError
from ascpipe.tf.running.process import Process
from tests.support import tfrecords
from tests.support.examples import example, feature
from tests.tf import test_read_positions as positions
from tests.tf.test_reading_figures import COUNTERS, counted

v1 = tf.compat.v1
Sparse = v1.SparseTensorValue
SPECS = {"user": tf.io.FixedLenFeature([2], tf.int64), "price": tf.io.FixedLenFeature([], tf.float32),
         "name": tf.io.FixedLenFeature([], tf.string), "tags": tf.io.VarLenFeature(tf.int64)}


def record(number):
    return example([("user", feature("int64", [number, number * 3])), ("price", feature("float32", [number / 4])),
                    ("name", feature("string", [b"name \xff %d" % number])),
                    ("tags", feature("int64", list(range(number % 4))))])


@pytest.fixture
def path(tmp_path):
    return tfrecords.write(tmp_path / "a.tfrecord", [record(number) for number in range(50)])


def read(path, transform, **given):
    return asc.data.read(path, SPECS, 8, transform=transform, **given)


def batches(build):
    found = []
    with tf.Graph().as_default(), v1.Session() as session:
        following = v1.data.make_one_shot_iterator(build()).get_next()
        while True:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                return found


def everything(batch):
    """Return results of many types."""
    tags = batch["tags"]
    return {"user": batch["user"].astype(np.int32) * 2, "price": np.log1p(batch["price"].astype(np.float64)),
            "name": batch["name"], "text": np.array(["a\u00e4%d" % row[0] for row in batch["user"]]),
            "short": np.array([b"x%d" % row[0] for row in batch["user"]]), "cheap": batch["price"] < 3,
            "tags": Sparse(tags.indices, tags.values + 1, tags.dense_shape),
            "outer": batch["user"][:, :, None] + [[0, 1]]}


def equal(left, right):
    if isinstance(left, Sparse):
        return all(np.array_equal(one, other) for one, other in zip(left, right))
    return left.dtype == right.dtype and np.array_equal(left, right)


@pytest.mark.parametrize("readers", [1, 3])
def test_the_results_are_exact_and_in_the_order_of_the_batches(path, readers):
    given = {"shuffle": True, "seed": 5, "epochs": 2, "readers": readers}
    found = batches(lambda: read(path, everything, **given))
    plain = batches(lambda: read(path, None, **given))
    assert len(found) == len(plain) == 14
    for one, before in zip(found, plain):
        expected = everything(before)
        expected["text"] = np.array([text.encode() for text in expected["text"]], object)
        expected["short"] = expected["short"].astype(object)
        assert set(one) == set(expected)
        for name in expected:
            assert equal(one[name], expected[name]), name
    assert found[0]["user"].dtype == np.int32 and found[0]["price"].dtype == np.float64


def test_numbers_of_the_other_byte_order_have_the_same_values(path):
    def swapped(batch):
        tags = batch["tags"]
        return {"user": batch["user"].astype(">i4"), "price": batch["price"].astype(">f8"),
                "tags": Sparse(tags.indices, tags.values.astype(">i8"), tags.dense_shape)}

    for one, plain in zip(batches(lambda: read(path, swapped)), batches(lambda: read(path, None))):
        assert equal(one["user"], plain["user"].astype(np.int32))
        assert equal(one["price"], plain["price"].astype(np.float64))
        assert equal(one["tags"].values, plain["tags"].values)


def doubled(batch):
    return {"user": batch["user"] * 2}


class Adder:
    def __call__(self, batch):
        return {"user": batch["user"] + 1}


def test_functions_are_given_by_name_or_as_any_callable(path):
    users = [batch["user"] for batch in batches(lambda: read(path, None))]
    for transform, expected in ((__name__ + ":doubled", [user * 2 for user in users]),
                                (Adder(), [user + 1 for user in users])):
        found = batches(lambda transform=transform: read(path, transform))
        assert all(np.array_equal(one["user"], user) for one, user in zip(found, expected)) and len(found) == 7


def test_shapes_are_static_and_the_batch_dimension_is_known_without_remainder(path):
    with tf.Graph().as_default():
        shapes = v1.data.get_output_shapes(read(path, everything, drop_remainder=True))
        assert (shapes["outer"].as_list(), shapes["price"].as_list()) == ([8, 2, 2], [8])
        assert v1.data.get_output_shapes(read(path, everything))["outer"].as_list() == [None, 2, 2]
        assert v1.data.get_output_types(read(path, everything))["cheap"] == tf.bool


def test_the_function_runs_in_threads_ahead_of_the_program(path):
    threads = set()

    def noted(batch):
        threads.add(threading.get_ident())
        return doubled(batch)

    batches(lambda: read(path, noted, readers=2))
    assert threading.get_ident() in threads and len(threads) > 1  # this thread has called it with the first batch


@pytest.mark.parametrize("transform, text", [
    ("no_such_module_of_anybody:f", "The module of transform='no_such_module_of_anybody:f' cannot be imported"),
    (__name__ + ":nothing", "There is no function 'nothing' in module"),
    (__name__ + ":SPECS", "which is not a function"),
    ("doubled", 'Pass a function, or the text "module:function"'),
    (":doubled", 'Pass a function, or the text "module:function"'),
    (5, "data.read is 5. Nothing was read"),
])
def test_a_function_that_does_not_exist_is_refused(path, transform, text):
    with tf.Graph().as_default(), pytest.raises(ArgumentError, match="E260") as caught:
        read(path, transform)
    assert text in str(caught.value)


def failing(batch):
    raise KeyError("no such thing")


def leaving(batch):
    sys.exit(3)


def ending(batch):
    return next(iter(()))


@pytest.mark.parametrize("transform, text", [
    (failing, "data.read raised KeyError: 'no such thing' (line "),
    (leaving, "data.read raised SystemExit: 3 (line "),
    (ending, "data.read raised StopIteration"),
    (lambda batch: None, "returned None. Return a dict"),
    (lambda batch: {}, "returned {}. Return a dict"),
    (lambda batch: {1: batch["user"]}, "returned a feature with the name 1"),
    (lambda batch: {"user": [1] * 8}, "returned [1, 1, 1, 1, 1, 1, 1, 1] for feature 'user'"),
    (lambda batch: {"user": batch["user"][:7]},
     "returned shape [7, 2] for feature 'user', but the batch has 8 records"),
    (lambda batch: {"user": np.float32(1) + np.zeros(())}, "for feature 'user'"),
    (lambda batch: {"user": np.zeros(8, "M8[s]")}, "an array of type datetime64[s] for feature 'user'"),
    (lambda batch: {"tags": Sparse(np.zeros((0, 2), np.int64), np.zeros(0), [9, 1])}, "returned shape [9, 1]"),
    (lambda batch: {"tags": Sparse(np.zeros((3, 3), np.int64), np.zeros(3), [8, 1])},
     "returned a sparse feature 'tags' with indices of shape [3, 3], values of shape [3] and dense_shape [8, 1]"),
    (lambda batch: {"tags": Sparse(np.zeros((3, 2), np.int64), np.zeros(2), [8, 1])}, "indices of shape [3, 2], "),
    (lambda batch: {"tags": Sparse(np.zeros((3, 2), np.int64), np.zeros(3), 8)}, "and dense_shape 8"),
    (lambda batch: {"tags": Sparse(np.zeros((3, 2), np.int64), np.zeros(3), None)}, "and dense_shape None"),
    (lambda batch: {"tags": Sparse(np.array([[0, 0], [8, 0]]), np.zeros(2), [8, 1])}, "indices [0, 0] to [8, 0]"),
    (lambda batch: {"tags": Sparse(np.array([[0, -1]]), np.zeros(1), [8, 1])}, "indices [0, -1] to [0, -1]"),
])
def test_a_function_that_fails_for_the_first_batch_is_an_error_of_read(path, transform, text):
    with tf.Graph().as_default(), pytest.raises(TransformError, match="E338") as caught:
        read(path, transform)
    assert text in str(caught.value) and path in str(caught.value)


def later(change):
    """A function whose results change in the batch with record 16."""
    return lambda batch: change(doubled(batch)) if 16 in batch["user"][:, 0] else doubled(batch)


def raise_error(batch):
    raise RuntimeError("not this one")


@pytest.mark.parametrize("change, text", [
    (leaving, "raised SystemExit: 3 (line "),
    (ending, "raised StopIteration"),
    (raise_error, "test_read_transform.py) in the batch that ends before record 24 of epoch 0 of "),
    (lambda batch: {"user": batch["user"].astype(np.int32)},
     "returned int32[records, 2] for feature 'user', but int64[records, 2] for the first batch"),
    (lambda batch: {"user": batch["user"][:, :1]},
     "returned int64[records, 1] for feature 'user', but int64[records, 2]"),
    (lambda batch: {"users": batch["user"]}, "returned the features ['users'], but ['user'] for the first batch"),
    (lambda batch: {"user": batch["user"][1:]}, "returned shape [7, 2] for feature 'user'"),
    (lambda batch: {"user": Sparse(np.zeros((1, 2), np.int64), np.zeros(1, np.int64), [8, 2])},
     "returned sparse int64[records, any]"),
])
def test_a_function_that_fails_later_is_an_error_of_its_batch(path, change, text):
    with tf.Graph().as_default(), v1.Session() as session:
        following = v1.data.make_one_shot_iterator(read(path, later(change))).get_next()
        users = []
        with pytest.raises(tf.errors.OpError) as caught:
            while True:
                users += session.run(following)["user"][:, 0].tolist()
        assert session.run(following)["user"][:, 0].tolist() == list(range(48, 64, 2))  # the next batch
    assert users == list(range(0, 32, 2))
    assert re.search(r"E338: Function 'later.<locals>.<lambda>' of [\w.]+data.read ", str(caught.value))
    assert text in str(caught.value) and path in str(caught.value)


def test_no_batch_is_an_error_of_read(path):
    with tf.Graph().as_default(), pytest.raises(
            tf.errors.InvalidArgumentError, match="E334: The data has 50 records.*The data is in " + re.escape(path)):
        asc.data.read(path, {"user": SPECS["user"]}, 100, drop_remainder=True, transform=doubled)


def renamed(batch):
    return {"user": batch["user"] % 11, "label": np.array(batch["label"]) + np.float32(0)}


def transformed(files):
    return positions.read(files, transform=renamed, readers=2)


@pytest.fixture
def files(tmp_path):
    return [tfrecords.write(tmp_path / "{}.tfrecord".format(name), positions.records(count)) for name, count in
            (("a", 30), ("b", 47))]


def test_a_restored_program_continues_with_the_next_transformed_batch(files, tmp_path):
    expected = positions.whole(lambda: transformed(files))
    assert len(expected) == 30
    assert positions.in_parts(lambda: transformed(files), tmp_path, [7, 11]) == expected


def test_the_first_batch_that_read_looks_at_is_not_counted(files):
    with positions.program(lambda: transformed(files)) as run:
        assert Process.is_initialised() and len(run.begin().steps()) == 30
        told = counted()
    assert [told[name] for name in COUNTERS[:4]] == [231, 3 * sum(
        len(record) for count in (30, 47) for record in positions.records(count)), 30, 0]
