"""Features of records: C++ counts what the parser in Python reads, and specs are ready to paste."""
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.data import example, schema
from ascpipe.data.records import RecordFile
from ascpipe.data.schema import Conflict, Feature, FileSchema
from ascpipe.errors import NotAnExampleError
from tests.support import examples, tfrecords
from tests.support.covering import example_count
from tests.support.examples import entry, feature, field

VALUES = {"int64": st.integers(-2 ** 63, 2 ** 63 - 1) | st.integers(0, 300), "float32": st.floats(width=32),
          "string": st.binary(max_size=9)}
TYPES = st.sampled_from(sorted(VALUES))


@st.composite
def features(draw):
    dtype = draw(TYPES)
    return dtype, draw(st.lists(VALUES[dtype], max_size=5)), draw(st.booleans())


RECORDS = st.lists(st.tuples(st.sampled_from(["", "a", "bc", "user", "\xe9", "\udcff"]), features()), max_size=6)


def summary(path):
    with RecordFile(path) as file:
        collected = FileSchema()
        file.check(collected, 2 ** 40)
        return collected, file.not_example


@settings(max_examples=example_count(70, 700))
@given(records=st.lists(RECORDS, max_size=6))
def test_facts_are_those_of_the_parser_in_python(tmp_path_factory, records):
    data = [examples.example([(name, feature(*made)) for name, made in record]) for record in records]
    path = tfrecords.write(tmp_path_factory.mktemp("data") / "a", data)
    expected = {}
    for number, one in enumerate(data):
        parsed = example.parse(one)
        assert set(parsed) == {name for name, _ in records[number]}
        for name, (dtype, values) in parsed.items():
            known = expected.setdefault(name, Feature(name, dtype, 0, len(values), len(values)))
            other = number if dtype != known.type and known.other is None else known.other
            expected[name] = Feature(name, known.type, known.records + 1, min(known.least, len(values)),
                                     max(known.most, len(values)), other)
    collected, not_example = summary(path)
    assert (collected.records, not_example) == (len(records), None)
    assert collected.features() == sorted(expected.values())


@given(record=RECORDS)
def test_values_are_parsed_as_they_were_written(record):
    parsed = example.parse(examples.example([(name, feature(*made)) for name, made in record]))
    for name, (dtype, values, _) in dict(record).items():
        assert parsed[name].type == dtype and list(map(repr, parsed[name].values)) == list(map(repr, values))


@settings(max_examples=example_count(100, 1000))
@given(record=RECORDS, places=st.lists(st.tuples(st.integers(0, 10 ** 6), st.integers(0, 7)), max_size=3),
       size=st.none() | st.integers(0, 200))
def test_both_parsers_refuse_the_same_damaged_records(tmp_path_factory, record, places, size):
    data = bytearray(examples.example([(name, feature(*made)) for name, made in record]))[:size]
    for place, bit in places if data else ():
        data[place % len(data)] ^= 1 << bit
    collected, not_example = summary(tfrecords.write(tmp_path_factory.mktemp("data") / "a", [bytes(data)]))
    try:
        parsed = example.parse(bytes(data))
    except NotAnExampleError:
        assert (collected.records, not_example, collected.features()) == (0, 0, [])
        return
    # C++ refuses tags that are not encoded in the usual way, which Python reads.
    assert not_example is not None or {one.name: one.type for one in collected.features()} == {
        name: made.type for name, made in parsed.items()}


@pytest.mark.parametrize(("data", "said"), [
    (b"text", "wire type"), (field(2, b""), "the field 2"), (field(1, b"\x0a\x05"), "only 0 bytes"),
    (field(1, entry("a", field(4, b""))), "a feature has the field 4"),
    (field(1, entry("a", field(2, field(1, b"abc")))), "3 bytes"),
    (field(1, entry("a", field(3, field(1, b"\x80")))), "incomplete"),
    (field(1, field(1, field(3, b""))), "the field 3")])
def test_what_is_no_example_is_an_error_that_says_why(data, said):
    with pytest.raises(NotAnExampleError) as caught:
        example.parse(data)
    assert said in str(caught.value)
    assert str(caught.value).startswith("E336: A record of {} bytes is not a tf.train.Example: ".format(len(data)))


def test_a_feature_with_the_same_count_in_all_records_has_a_fixed_length(tmp_path):
    collected, _ = summary(tfrecords.write(tmp_path / "a", tfrecords.clicks(50)))
    assert schema.spec_lines(collected.features(), collected.records) == [
        "features = {",
        '    "dense": tf.io.FixedLenFeature([3], tf.float32),',
        '    "label": tf.io.FixedLenFeature([], tf.float32),',
        '    "query": tf.io.FixedLenFeature([], tf.string),',
        '    "tags": tf.io.VarLenFeature(tf.int64),',
        '    "user": tf.io.FixedLenFeature([], tf.int64),',
        "}"]


def test_missing_and_empty_features_have_no_fixed_length():
    assert schema.spec(Feature("a", "int64", 9, 1, 1), 10) == "tf.io.VarLenFeature(tf.int64)"
    assert schema.spec(Feature("a", None, 10, 0, 0), 10) == "tf.io.VarLenFeature(tf.string)"
    assert schema.spec_lines([Feature('"\udcff\n', "int64", 1, 1, 1)], 1)[1] == (
        "    '\"\\udcff\\n': tf.io.FixedLenFeature([], tf.int64),")


def test_features_of_several_files_are_merged_and_conflicts_are_named():
    files = [("x", [Feature("a", "int64", 5, 1, 1), Feature("b", None, 5, 0, 0), Feature("c", "string", 5, 1, 2, 3)]),
             ("y", [Feature("a", "float32", 2, 3, 3), Feature("b", "int64", 2, 4, 4), Feature("d", "int64", 1, 1, 1)]),
             ("z", [Feature("b", "int64", 1, 1, 1)])]
    together, conflicts = schema.merged(files)
    assert together == [Feature("a", "int64", 7, 1, 3), Feature("b", "int64", 8, 0, 4),
                        Feature("c", "string", 5, 1, 2, 3), Feature("d", "int64", 1, 1, 1)]
    assert conflicts == [Conflict("a", "int64", "y has float32"),
                         Conflict("c", "string", "record 3 of x has another type")]
