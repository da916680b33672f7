"""Records of tf.train.Example are parsed with the bits and errors of TensorFlow, whatever is in them."""
import contextlib
import os

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascpipe.tfops import load
from tests.support import examples, forked_calls
from tests.support.covering import example_count
from tests.support.examples import example, field
from tests.support.tensorflows import IS_TENSORFLOW_1

v1 = tf.compat.v1
pytestmark = [
    pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs"),
    pytest.mark.skipif(not IS_TENSORFLOW_1, reason="with TensorFlow 2.15, programs use the op ParseExampleV2")]

TYPES = (tf.int64, tf.float32, tf.string)
NAMES = ["", "a", "ab", "abc", "c10", "user", "user1", "item_id", "label_of_click", "a_name_of_17_bytes", "\xe9t\xe9",
         "a_name_of_18_bytes"]


# ---- records, byte by byte

def feature(dtype, values, is_packed=True):
    """A tf.train.Feature."""
    return examples.feature(dtype.name, values, is_packed)


# ---- what a program asks for, and what a file has

def values_of(dtype):
    return {tf.int64: st.integers(-2 ** 63, 2 ** 63 - 1) | st.integers(0, 300),
            tf.float32: st.floats(width=32), tf.string: st.binary(max_size=9)}[dtype]


@st.composite
def cases(draw):
    """Specs of features, and the records of a batch."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True))
    specs, types, counts = {}, {}, {}
    for name in names:
        types[name] = dtype = draw(st.sampled_from(list(TYPES)))
        counts[name] = shape = draw(st.sampled_from([None, [], [1], [3], [2, 2]]))
        default = None
        if shape is not None and draw(st.booleans()):
            size = int(np.prod(shape))
            default = np.array(draw(st.lists(values_of(dtype), min_size=size, max_size=size)),
                               dtype=dtype.as_numpy_dtype).reshape(shape).tolist()
        specs[name] = tf.io.VarLenFeature(dtype) if shape is None else tf.io.FixedLenFeature(shape, dtype, default)
    is_common = draw(st.booleans())
    records = []
    for _ in range(draw(st.integers(0, 6))):
        entries = []
        for name in draw(st.permutations(names)):
            spec, dtype = specs[name], types[name]
            optional = counts[name] is None or spec.default_value is not None or not is_common
            if optional and draw(st.integers(0, 4)) == 0:
                continue
            if not is_common and draw(st.integers(0, 9)) == 0:
                dtype = draw(st.sampled_from(list(TYPES)))
            size = draw(st.integers(0, 4)) if counts[name] is None else int(np.prod(counts[name]))
            if not is_common and draw(st.integers(0, 9)) == 0:
                size += 1
            data = feature(dtype, draw(st.lists(values_of(dtype), min_size=size, max_size=size)),
                           is_common or draw(st.integers(0, 3)) > 0)
            entries.append((name, b"" if not is_common and draw(st.integers(0, 9)) == 0 else data))
            if not is_common and draw(st.integers(0, 9)) == 0:
                entries.append(draw(st.sampled_from(entries)))
        entries.insert(draw(st.integers(0, len(entries))), ("not asked for", feature(tf.int64, [1])))
        records.append(example(entries))
    return specs, records


def ours(**given):
    return load.load().asc_parse_example(**given)


@contextlib.contextmanager
def parsing_with(parse):
    """``tf.io.parse_example`` creates the op of ``parse``."""
    from tensorflow.python.ops import gen_parsing_ops
    theirs = gen_parsing_ops.parse_example
    gen_parsing_ops.parse_example = parse or theirs
    try:
        yield
    finally:
        gen_parsing_ops.parse_example = theirs


def outcome(parse, specs, records, names=None):
    """What ``tf.io.parse_example`` returns with the op of ``parse`` (None: of TensorFlow), as bytes, or its error."""
    with parsing_with(parse), tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(
            intra_op_parallelism_threads=2, inter_op_parallelism_threads=1)) as session:
        given = tf.constant(np.array(records, dtype=object), tf.string, [len(records)])
        if names is not None:  # a shape that is known at run time only, so that the kernel checks it
            names = v1.placeholder_with_default(np.array(names, dtype=object), None)
        parsed = v1.io.parse_example(given, specs, example_names=names)
        try:
            found = session.run(parsed)
        except tf.errors.OpError as error:
            return type(error), error.message.partition("\n")[0]
    return {name: [(part.dtype, part.shape, part.tolist() if part.dtype == object else part.tobytes())
                   for part in (value if isinstance(value, tuple) else (value,))] for name, value in found.items()}


def require_same(specs, records, names=None):
    """Return what both ops return. TensorFlow 1.15 crashes if its error has bytes that are not UTF-8."""
    found = outcome(ours, specs, records, names)
    is_unreadable = isinstance(found, tuple) and found[1].startswith(UNREADABLE) and "\\" in found[1]
    if is_unreadable and found[0] is tf.errors.InvalidArgumentError:
        return found
    assert found == outcome(None, specs, records, names)
    return found


UNREADABLE = "Could not parse example input, value: "
SLOW = settings(max_examples=example_count(40, 500), deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(cases())
def test_any_records_have_the_tensors_and_errors_of_tensorflow(case):
    require_same(*case)


@SLOW
@given(cases(), st.data())
def test_damaged_records_have_them_too(case, data):
    specs, records = case
    damaged = []
    for record in records:
        bytes_of = bytearray(record)
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, max(0, len(bytes_of) - 1)))
            change = data.draw(st.sampled_from(["bit", "cut", "remove", "insert"]))
            if change == "cut":
                del bytes_of[at:]
            elif change == "remove":
                del bytes_of[at:at + 1]
            elif change == "insert":
                bytes_of.insert(at, data.draw(st.integers(0, 255)))
            elif bytes_of:
                bytes_of[at] ^= 1 << data.draw(st.integers(0, 7))
        damaged.append(bytes(bytes_of))
    require_same(specs, damaged)


def test_a_batch_of_several_blocks_has_them_too():
    random = np.random.RandomState(3)
    specs = {"one": tf.io.FixedLenFeature([], tf.int64), "text": tf.io.FixedLenFeature([2], tf.string, ["x", "y"]),
             "some": tf.io.VarLenFeature(tf.int64), "words": tf.io.VarLenFeature(tf.string),
             "rates": tf.io.VarLenFeature(tf.float32), "dense": tf.io.FixedLenFeature([3], tf.float32, [1., 2., 3.])}
    records = []
    for _ in range(1000):
        entries = [("one", feature(tf.int64, [random.randint(2 ** 40)])),
                   ("text", feature(tf.string, [b"a" * random.randint(40), b"b"])),
                   ("some", feature(tf.int64, random.randint(99, size=random.randint(5)).tolist())),
                   ("words", feature(tf.string, [b"w"] * random.randint(3))),
                   ("rates", feature(tf.float32, random.rand(random.randint(4)).tolist())),
                   ("dense", feature(tf.float32, random.rand(3).tolist()))]
        records.append(example([entries[0], *(each for each in entries[1:] if random.rand() < .8)]))
    found = require_same(specs, records)
    assert found["some"][2][2] == np.array([1000, 4], np.int64).tobytes()


@pytest.mark.parametrize("size", [1, 3, 5, 25])
@pytest.mark.parametrize("spec", [tf.io.VarLenFeature(tf.float32), tf.io.FixedLenFeature([], tf.float32)], ids=str)
@pytest.mark.each_value
def test_packed_floats_with_a_part_of_a_float_have_them_too(size, spec):
    require_same({"rate": spec}, [example([("rate", field(2, field(1, b"x" * size)))])])


@pytest.mark.parametrize("names", [["only one"], [["a", "b"]]])
def test_wrong_names_of_records_have_the_error_of_tensorflow(names):
    specs = {"one": tf.io.FixedLenFeature([], tf.int64)}
    error, _ = require_same(specs, [example([("one", feature(tf.int64, [1]))])] * 2, names)
    assert error is tf.errors.InvalidArgumentError


def test_the_name_of_a_record_is_in_an_error():
    specs = {"one": tf.io.FixedLenFeature([], tf.int64)}
    _, text = require_same(specs, [example([])], ["first"])
    assert "first" in text


def test_after_many_unusual_batches_tensors_are_the_same_still():
    specs = {"one": tf.io.FixedLenFeature([], tf.int64), "some": tf.io.VarLenFeature(tf.float32)}
    unusual = example([("one", feature(tf.int64, [7], is_packed=False)), ("some", feature(tf.float32, [1., 2.]))])
    common = example([("one", feature(tf.int64, [8])), ("some", feature(tf.float32, [3.]))])
    with parsing_with(ours), tf.Graph().as_default(), v1.Session() as session:
        given = v1.placeholder(tf.string, [None])
        parsed = v1.io.parse_example(given, specs)
        for records in [[common, unusual]] * 7 + [[common] * 2] * 2:
            found = session.run(parsed, {given: records})
            assert found["one"].tolist() == [8 if record is common else 7 for record in records]
            assert found["some"].values.tolist() == sum(([3.] if record is common else [1., 2.]
                                                         for record in records), [])


# ---- in datasets

PROGRAM = """
import tensorflow as tf
import ascpipe.tf as asc
asc.init()
spec = {"one": tf.io.FixedLenFeature([], tf.int64)}
make = lambda n: tf.train.Example(features=tf.train.Features(feature={
    "one": tf.train.Feature(int64_list=tf.train.Int64List(value=[n]))})).SerializeToString()
records = [make(n) for n in range(6)]
records[3] = records[3] + records[3]  # two features fields: a message that is read as the sum of both
with tf.io.TFRecordWriter("data.tfrecord") as file:
    for record in records:
        file.write(record)
data = tf.data.TFRecordDataset("data.tfrecord").batch(2).map(lambda each: tf.io.parse_example(each, spec))
one = tf.compat.v1.data.make_one_shot_iterator(data).get_next()["one"]
assert "AscParseExample" not in str(tf.compat.v1.get_default_graph().as_graph_def())
with tf.compat.v1.Session() as session:
    print([session.run(one).tolist() for _ in range(3)])
"""


@pytest.mark.parametrize("fast", ["1", "0"])
def test_datasets_use_the_fast_parser_and_exported_graphs_do_not(fast, tmp_path):
    environment = {**os.environ, "ASCPIPE_FAST_INPUT": fast, "TF_CPP_MIN_LOG_LEVEL": "0"}
    code, out, err = forked_calls.python(["-c", PROGRAM], tmp_path, environment, 120.0)
    assert code == 0, err
    assert out.strip() == "[[0, 1], [2, 3], [4, 5]]"
    assert ("uses TensorFlow's parser, which is slower: a batch has a record" in err) == (fast == "1")
