"""``asc.data.read`` returns the tensors of ``tf.io.parse_example``, bit by bit, whatever the specs and records are."""
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ascpipe.tf as asc
from tests.support import tfrecords
from tests.support.examples import example, feature
from tests.tf.test_parse_example import UNREADABLE, cases

v1 = tf.compat.v1
pytestmark = pytest.mark.timeout_s(240)
_numbers = itertools.count()


@st.composite
def schemas(draw):
    """Cases of test_parse_example.py, of which some features are padded or sparse."""
    specs, records = draw(cases())
    for name, spec in list(specs.items()):
        change = draw(st.sampled_from(["none", "none", "padded", "sparse"]))
        if change == "padded" and getattr(spec, "shape", [3]) in ([], [3]):
            default = {tf.string: "x", tf.int64: 7, tf.float32: .5}[spec.dtype] if draw(st.booleans()) else None
            specs[name] = tf.io.FixedLenSequenceFeature(
                getattr(spec, "shape", []), spec.dtype, allow_missing=True, default_value=default)
        elif change == "sparse":
            specs[name] = tf.io.SparseFeature("place of " + name, "value of " + name, tf.float32, 50)
            for number, record in enumerate(records):
                places = draw(st.lists(st.integers(0, 49), max_size=3, unique=True))
                values = [.5] * (len(places) + (draw(st.integers(0, 19)) == 0))
                records[number] = record + example([("place of " + name, feature("int64", places)),
                                                    ("value of " + name, feature("float32", values))])
    return specs, records


def outcome(build):
    """The element of a dataset or tensors as bytes, or the class of the error and its text."""
    with tf.Graph().as_default(), v1.Session() as session:
        try:
            found = session.run(build())
        except tf.errors.OpError as error:
            return type(error), error.message
    return {name: [(part.dtype, part.shape, part.tolist() if part.dtype == object else part.tobytes())
                   for part in map(np.asarray, value if isinstance(value, tuple) else (value,))]
            for name, value in found.items()}


def require_same(folder, specs, records):
    path = tfrecords.write(folder / "{}.tfrecord".format(next(_numbers)), records)
    found = outcome(lambda: v1.data.make_one_shot_iterator(asc.data.read(path, specs, len(records))).get_next())
    if isinstance(found, tuple) and UNREADABLE in found[1] and "\\" in found[1]:
        return  # TensorFlow 1.15 crashes if its error has bytes that are not UTF-8
    expected = outcome(lambda: v1.io.parse_example(tf.constant(np.array(records, dtype=object), tf.string), specs))
    if isinstance(expected, tuple):
        assert isinstance(found, tuple) and found[0] is expected[0], (found, expected)
    else:
        assert found == expected


@pytest.mark.parametrize("examples", [15, pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout_s(1500)])])
def test_any_schema_has_the_tensors_and_errors_of_tensorflow(tmp_path, examples):
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(schemas())
    def check(case):
        if case[1]:
            require_same(tmp_path, *case)

    check()


def test_big_records(tmp_path):
    values = np.random.RandomState(1).randint(0, 2 ** 40, 300_000).tolist()
    record = example([("many", feature("int64", values)), ("text", feature("string", [b"x" * 5_000_000]))])
    require_same(tmp_path, {"many": tf.io.FixedLenFeature([len(values)], tf.int64),
                            "text": tf.io.FixedLenFeature([], tf.string)}, [record] * 2)
    require_same(tmp_path, {"many": tf.io.VarLenFeature(tf.int64)}, [record, b"", record])


def test_a_dense_feature_that_no_memory_can_hold_is_an_error(tmp_path):
    path = tfrecords.write(tmp_path / "a.tfrecord", [example([])] * 3)
    specs = {"huge": tf.io.FixedLenFeature([2 ** 45], tf.int64)}
    assert isinstance(outcome(lambda: v1.data.make_one_shot_iterator(asc.data.read(path, specs, 3)).get_next()), tuple)
