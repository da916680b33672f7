"""``asc.data.read`` of Parquet files: the tensors equal pyarrow's arrays, bit by bit."""
import itertools
import math
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ascpipe.tf as asc
from ascpipe.errors import AscpipeError
from tests.support import parquets
from tests.support.parquets import pyarrow as pa
from tests.tf.test_read import elements

v1 = tf.compat.v1
pytestmark = pytest.mark.timeout_s(240)
SPECS = {"label": tf.io.FixedLenFeature([], tf.float32), "dense": tf.io.FixedLenFeature([3], tf.float32),
         "user": tf.io.FixedLenFeature([], tf.int64), "tags": tf.io.VarLenFeature(tf.int64),
         "query": tf.io.FixedLenFeature([1], tf.string), "ad": asc.data.hashed("place", 100)}
_numbers = itertools.count()

_INTEGERS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
_FLOATS = (pa.float32(), pa.float64())
_STRINGS = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def values_of(kind):
    """Strategy of the values of a type."""
    if kind in _INTEGERS:
        return st.integers(-2 ** _INTEGERS[kind], 2 ** _INTEGERS[kind] - 1)
    if pa.types.is_unsigned_integer(kind):
        return st.integers(0, min(2 ** kind.bit_width, 2 ** 63) - 1)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if kind in _FLOATS:
        return st.floats(width=32 if kind == pa.float32() else 64)
    return st.binary(max_size=9) if kind in (pa.binary(), pa.large_binary()) else st.text(max_size=9)


@st.composite
def columns(draw, rows):
    """A column of a table, and a spec that reads it."""
    kind = draw(st.sampled_from([*_INTEGERS, pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.bool_(), *_FLOATS,
                                 *_STRINGS]))
    dtype = tf.string if kind in _STRINGS else tf.float32 if kind in _FLOATS else tf.int64
    if dtype == tf.int64 and draw(st.booleans()):
        dtype = tf.float32
    default = {tf.string: b"-", tf.float32: .25, tf.int64: -9}[dtype]
    form = draw(st.sampled_from(["scalar", "nulls", "optional", "list", "lists", "large lists", "fixed"]))
    one = values_of(kind)
    if form in ("scalar", "nulls", "optional"):
        values = draw(st.lists(one if form == "scalar" else st.none() | one, min_size=rows, max_size=rows))
        array = pa.array(values, kind)
        if kind in (pa.string(), pa.int32()) and draw(st.booleans()):
            array = array.dictionary_encode()
        spec = {"scalar": tf.io.FixedLenFeature([], dtype), "nulls": tf.io.FixedLenFeature([], dtype, default),
                "optional": tf.io.VarLenFeature(dtype)}[form]
        return array, spec
    count = draw(st.integers(1, 3))
    if form == "fixed":
        array = pa.array(draw(st.lists(st.lists(one, min_size=count, max_size=count), min_size=rows, max_size=rows)),
                         pa.list_(kind, count))
        return array, tf.io.FixedLenFeature([count], dtype)
    if form == "list":
        lists = st.none() | st.lists(one, min_size=count, max_size=count)
        array = pa.array(draw(st.lists(lists, min_size=rows, max_size=rows)), pa.list_(kind))
        return array, tf.io.FixedLenFeature([count], dtype, [default] * count)
    many = pa.list_(kind) if form == "lists" else pa.large_list(kind)
    array = pa.array(draw(st.lists(st.none() | st.lists(one, max_size=4), min_size=rows, max_size=rows)), many)
    return array, tf.io.VarLenFeature(dtype)


def plain(value, dtype):
    """A value of Python as the feature has it."""
    if dtype == tf.string:
        return value.encode() if isinstance(value, str) else value
    with np.errstate(over="ignore"):
        if dtype == tf.int64:
            return int(value)
        return np.float64(value).astype(np.float32) if isinstance(value, float) else np.int64(value).astype(np.float32)


def expected(array, spec):
    """The tensors of all rows: a dense array, or the indices, values and shape of a sparse tensor."""
    rows = array.to_pylist()
    if isinstance(spec, tf.io.FixedLenFeature):
        rows = [spec.default_value if row is None else row for row in rows]
        flat = [plain(value, spec.dtype) for row in rows for value in (row if isinstance(row, list) else [row])]
        return np.array(flat, spec.dtype.as_numpy_dtype).reshape([len(rows), *spec.shape])
    rows = [[] if row is None else row if isinstance(row, list) else [row] for row in rows]
    places = [(number, at) for number, row in enumerate(rows) for at in range(len(row))]
    return (np.array(places, np.int64).reshape([-1, 2]),
            np.array([plain(value, spec.dtype) for row in rows for value in row], spec.dtype.as_numpy_dtype),
            np.array([len(rows), max(map(len, rows))], np.int64))


def as_bytes(array):
    array = np.asarray(array)
    return array.dtype, array.shape, array.tolist() if array.dtype == object else array.tobytes()


def require_same(found, theirs):
    for ours, other in zip(tf.nest.flatten(found), tf.nest.flatten(theirs)):
        assert as_bytes(ours) == as_bytes(other)


@pytest.mark.parametrize("examples", [20, pytest.param(2000, marks=[pytest.mark.long, pytest.mark.timeout_s(2400)])])
def test_any_table_has_the_values_of_pyarrow(tmp_path, examples):
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data):
        rows = data.draw(st.integers(1, 30))
        drawn = {name: data.draw(columns(rows)) for name in "abc"[:data.draw(st.integers(1, 3))]}
        table = pa.table({name: array for name, (array, _) in drawn.items()})
        cut = data.draw(st.integers(0, rows))
        options = {"compression": data.draw(st.sampled_from(["none", "snappy", "gzip"])),
                   "use_dictionary": data.draw(st.booleans()),
                   "data_page_version": data.draw(st.sampled_from(["1.0", "2.0"]))}
        number = next(_numbers)
        paths = [parquets.write(tmp_path / "{}-{}.parquet".format(number, part), piece, data.draw(st.integers(1, rows)),
                                **options)
                 for part, piece in enumerate([table.slice(0, cut), table.slice(cut)])]
        size = data.draw(st.integers(1, rows))
        found = elements(lambda: asc.data.read(paths, {name: spec for name, (_, spec) in drawn.items()}, size,
                                               readers=data.draw(st.integers(1, 2))))
        assert len(found) == math.ceil(rows / size)
        for batch, first in zip(found, range(0, rows, size)):
            for name, (array, spec) in drawn.items():
                require_same(batch[name], expected(array.slice(first, size), spec))

    check()


@pytest.fixture
def files(tmp_path):
    """Three files with 70 records, in row groups of 11 rows."""
    return [parquets.write(tmp_path / "part-{}.parquet".format(number), parquets.clicks(count, first), 11)
            for number, (first, count) in enumerate([(0, 30), (30, 7), (37, 33)])]


def test_one_program_reads_all_kinds_of_features(files):
    (found,) = elements(lambda: asc.data.read(files, SPECS, 70))
    numbers = np.arange(70)
    assert found["user"].tolist() == (7 * numbers).tolist()
    assert found["dense"].tolist() == [[number, .5, -1] for number in numbers]
    assert found["tags"].values.tolist() == [tag for number in numbers for tag in range(number % 4)]
    assert found["query"].tolist() == [["text {}".format(number).encode()] for number in numbers]
    with tf.Graph().as_default(), v1.Session() as session:
        ids = session.run(tf.strings.to_hash_bucket_fast([str(number % 5) for number in numbers], 100))
    assert found["ad"].tolist() == ids.tolist()


@pytest.mark.parametrize("shape", [(), (2,), None])
def test_hashed_lists_and_defaults(tmp_path, shape):
    texts = {(): ["a", None, "c"], (2,): [["a", "b"], None, ["c", "d"]], None: [["a", "b"], [], ["c"]]}[shape]
    default = {(): "x", (2,): ["x", "y"], None: None}[shape]
    path = parquets.write(tmp_path / "a.parquet", {"s": texts})
    (found,) = elements(lambda: asc.data.read(path, {"s": asc.data.hashed("s", 1000, shape, default)}, 3))
    rows = [default if row is None else row for row in texts]
    flat = [text for row in rows for text in (row if isinstance(row, list) else [row])]
    with tf.Graph().as_default(), v1.Session() as session:
        ids = session.run(tf.strings.to_hash_bucket_fast(flat, 1000)).tolist()
    values = found["s"].values if shape is None else found["s"].reshape(-1)
    assert values.tolist() == ids


def test_sparse_features_of_two_columns(tmp_path):
    path = parquets.write(tmp_path / "a.parquet", {"at": [[1, 4], []], "value": [[.5, 1.], []]})
    (found,) = elements(lambda: asc.data.read(path, {"x": tf.io.SparseFeature("at", "value", tf.float32, 6)}, 2))
    assert found["x"].indices.tolist() == [[0, 1], [0, 4]] and found["x"].values.tolist() == [.5, 1]
    assert found["x"].dense_shape.tolist() == [2, 6]


def test_the_format_may_be_named_or_recognized(tmp_path):
    path = parquets.write(tmp_path / "data", {"a": [1, 2]})
    specs = {"a": tf.io.FixedLenFeature([], tf.int64)}
    for given_format in (None, "parquet"):
        (found,) = elements(lambda kind=given_format: asc.data.read(path, specs, 2, format=kind))
        assert found["a"].tolist() == [1, 2]


def test_empty_files_and_row_groups_have_no_records(tmp_path):
    schema = pa.schema([("a", pa.int64())])
    with parquets.parquet.ParquetWriter(str(tmp_path / "1.parquet"), schema) as writer:
        for values in ([], [1, 2], [], [3]):
            writer.write_table(pa.table({"a": pa.array(values, pa.int64())}), row_group_size=10)
    with parquets.parquet.ParquetWriter(str(tmp_path / "2.parquet"), schema):
        pass
    specs = {"a": tf.io.FixedLenFeature([], tf.int64)}
    (found,) = elements(lambda: asc.data.read(str(tmp_path / "*.parquet"), specs, 9))
    assert found["a"].tolist() == [1, 2, 3]
    with pytest.raises(tf.errors.InvalidArgumentError, match="E334: The data has 0 records"):
        elements(lambda: asc.data.read(str(tmp_path / "2.parquet"), specs, 9))


REFUSED = {
    "absent": (tf.io.FixedLenFeature([], tf.int64), "a.parquet has no column with the name 'absent'.*'i' .int32."),
    "s": (tf.io.FixedLenFeature([], tf.int64), "Column 's' of .*a.parquet has the type string, and .* int64 .*differ"),
    "i": (tf.io.FixedLenFeature([], tf.string), "Column 'i' of .*a.parquet has the type int32, and .* string"),
    "f": (tf.io.VarLenFeature(tf.int64), "has the type double, and the feature reads any number of values of .* int64"),
    "l": (tf.io.FixedLenFeature([], tf.float32), "has the type list<item: string>"),
    "w": (tf.io.FixedLenFeature([3], tf.int64), "reads 3 values .* each row has 2 values"),
    "t": (tf.io.FixedLenFeature([], tf.int64), "has the type timestamp.us., .* reads integers, bools, floats"),
    "d": (tf.io.FixedLenFeature([], tf.float32), "has the type decimal128"),
    "r": (tf.io.FixedLenFeature([], tf.int64), "has the type struct"),
    "n": (tf.io.FixedLenFeature([], tf.int64, 0), "has the type null"),
    "ll": (tf.io.VarLenFeature(tf.int64), "has the type list<item: list"),
    "many": (tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True), "known number of values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_columns_that_a_feature_cannot_read_are_an_error_of_the_call(tmp_path, name):
    path = parquets.write(tmp_path / "a.parquet", {
        "i": pa.array([1], pa.int32()), "s": ["x"], "f": [.5], "l": [["x"]],
        "w": pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
        "t": pa.array([1], pa.timestamp("us")), "d": pa.array([1]).cast(pa.decimal128(20)), "r": [{"a": 1}],
        "n": pa.array([None]), "ll": [[[1]]]})
    spec, text = REFUSED[name]
    with tf.Graph().as_default(), pytest.raises(AscpipeError, match="E265: .*" + text):
        asc.data.read(path, {name: spec}, 1)


UNFIT = {
    "null": ([1, None, 3], tf.io.FixedLenFeature([], tf.int64), "column 'a' is null, and the feature has no default"),
    "null list": ([[1], None, [2]], tf.io.FixedLenFeature([1], tf.int64), "column 'a' is null"),
    "length": ([[1, 2], [3], [4, 5]], tf.io.FixedLenFeature([2], tf.int64), "of values of column 'a' is 1, .* has 2"),
    "null item": ([[1], [None], [2]], tf.io.VarLenFeature(tf.int64), "a value of column 'a' is null"),
    "large": (pa.array([1, 2 ** 63, 2], pa.uint64()), tf.io.FixedLenFeature([], tf.int64), "is greater than 92233"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_rows_that_do_not_fit_are_an_error_or_skipped(tmp_path, name):
    values, spec, text = UNFIT[name]
    path = parquets.write(tmp_path / "a.parquet", {"a": values}, 2)
    where = r"E337: record 1 of .*a.parquet \(row 1 of row group 0\) does not have the features"
    with pytest.raises(tf.errors.InvalidArgumentError, match="{}.*{}".format(where, text)):
        elements(lambda: asc.data.read(path, {"a": spec}, 3))
    (found,) = elements(lambda: asc.data.read(path, {"a": spec}, 3, on_bad_record="skip"))
    assert np.asarray(found["a"].dense_shape if name == "null item" else found["a"].shape)[0] == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="E337: No record of a batch has the features"):
        elements(lambda: asc.data.read(path, {"a": spec}, 1, on_bad_record="skip"))


def test_numbers_that_exceed_int64_are_read_as_floats(tmp_path):
    path = parquets.write(tmp_path / "a.parquet", {"a": pa.array([2 ** 64 - 1], pa.uint64())})
    (found,) = elements(lambda: asc.data.read(path, {"a": tf.io.FixedLenFeature([], tf.float32)}, 1))
    assert found["a"].tolist() == [2.0 ** 64]


def test_without_pyarrow_the_error_has_the_command(tmp_path, monkeypatch):
    path = parquets.write(tmp_path / "a.parquet", {"a": [1]})
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with tf.Graph().as_default(), pytest.raises(AscpipeError, match="E340: .*a.parquet is a Parquet .*pip install"):
        asc.data.read(path, {"a": tf.io.FixedLenFeature([], tf.int64)}, 1)
