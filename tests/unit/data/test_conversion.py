"""Writers of records: tf.train.Example as TensorFlow's writers make it, and text that its parser reads back."""
import io
import random
import struct

import pytest

from ascpipe.cli.converted_data import columns_of
from ascpipe.data import example
from ascpipe.data.conversion import ExampleWriter, TextWriter, check_single
from ascpipe.data.example import FeatureValues
from ascpipe.errors import ArgumentError, DataError, DataFilesError, NotAnExampleError
from tests.support import examples, tfrecords


def some_feature(draw):
    kind = draw.choice(["int64", "float32", "string"])
    values = {"int64": lambda: draw.choice([draw.getrandbits(64) - 2**63, draw.randrange(300), -1]),
              "float32": lambda: struct.unpack("<f", struct.pack("<f", draw.uniform(-1e9, 1e9)))[0],
              "string": lambda: bytes(draw.getrandbits(8) for _ in range(draw.choice([0, 3, 127, 128, 20000])))}[kind]
    return kind, [values() for _ in range(draw.choice([0, 1, 1, 40]))]


def test_records_are_the_bytes_that_another_writer_makes(seed):
    draw = random.Random(seed)
    for _ in range(200):
        features = [("n\udcff%d" % number, *some_feature(draw)) for number in range(draw.randrange(5))]
        expected = examples.example([(name, examples.feature(*one)) for name, *one in features])
        values = {name: FeatureValues(*one) for name, *one in features}
        assert example.serialized(values) == expected
        assert example.parse(expected) == values


def test_a_feature_without_a_list_keeps_its_name():
    assert example.parse(example.serialized({"a": FeatureValues(None, [])})) == {"a": FeatureValues(None, [])}


def test_tfrecords_have_their_checksums():
    file = io.BytesIO()
    writer = ExampleWriter(file)
    writer.write({"a": FeatureValues("int64", [5])})
    writer.write({})
    assert file.getvalue() == tfrecords.content([
        examples.example([("a", examples.feature("int64", [5]))]), examples.example([])])


def test_fields_are_quoted_if_they_have_delimiters_quotes_or_line_ends():
    file = io.BytesIO()
    writer = TextWriter(file, ["a", "b,c"], b",", True)
    for text in (b"plain", b'"', b"x\n", b"y\r", b"1,2", b"\t"):
        writer.write({"b,c": FeatureValues("string", [text]), "more": FeatureValues("int64", [1])})
    assert file.getvalue() == b'a,"b,c"\n,plain\n,""""\n,"x\n"\n,"y\r"\n,"1,2"\n,\t\n'


def test_a_field_has_at_most_one_value():
    writer = TextWriter(io.BytesIO(), ["a"], b"\t", False)
    writer.write({"a": FeatureValues("int64", [])})
    with pytest.raises(DataError, match="Feature 'a' has 2 values"):
        writer.write({"a": FeatureValues("int64", [1, 2])})
    with pytest.raises(DataFilesError, match="Feature 'b' has up to 2 values"):
        check_single({"a": 1, "b": 2, "c": 3})


def test_columns_have_names_and_types():
    assert columns_of(None) is None
    assert columns_of("a,b:int64,c:d:hex,e") == {"a": None, "b": "int64", "c:d": "hex", "e": None}
    for given in ("", "a,", "a,a", "a:double", ":hex"):
        with pytest.raises(ArgumentError, match="E260"):
            columns_of(given)


def outcome(parse, data):
    try:
        return repr(parse(data))  # NaN equals NaN
    except NotAnExampleError as error:
        return str(error)


def test_the_fast_parser_returns_the_values_of_the_other_one_or_nothing(seed, monkeypatch):
    draw = random.Random(seed)
    fast = 0
    for number in range(600):
        data = bytearray(examples.example([("n%d" % place, examples.feature(*some_feature(draw), number % 5 != 0))
                                           for place in range(draw.randrange(4))])[:3000])
        for _ in range(draw.choice([0, 0, 1, 2])):
            if data:
                data[draw.randrange(min(len(data), 60))] = draw.choice([draw.getrandbits(8), 10, 18, 26, 0])
        data = bytes(data)
        found = outcome(example.parse, data)
        with monkeypatch.context() as patch:
            patch.setattr(example, "_common", lambda data: None)
            assert outcome(example.parse, data) == found, data
        fast += example._common(data) is not None
    assert 100 < fast < 600
