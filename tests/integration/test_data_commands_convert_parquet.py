"""``ascpipe data convert`` from and to Parquet files."""
import math

import numpy as np
import pytest

from tests.integration.test_data_commands import ascpipe
from tests.integration.test_data_commands_convert import FLOATS, INTS, TEXTS, convert
from tests.support import tfrecords
from tests.support.examples import example, feature

pa = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow, which is not installed")
parquet = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.usefixtures("forked_programs")


def row(number):
    """Features of all types: single values, and lists of 0 to 3 values."""
    return example([
        ("f", feature("float32", [FLOATS[number]])), ("fs", feature("float32", FLOATS[number:number + number % 4])),
        ("i", feature("int64", [INTS[number % len(INTS)]])), ("is", feature("int64", INTS[:number % 4])),
        ("s", feature("string", [TEXTS[number % len(TEXTS)]])), ("ss", feature("string", TEXTS[:number % 4]))])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tfrecord_files_are_the_same_bytes_after_a_round_trip_through_parquet(folder):
    tfrecords.write(folder / "a.tfrecord", [row(number) for number in range(2500)])
    assert convert("a.tfrecord", "b.parquet") == "parquet  b.parquet  2500 records\n"
    assert convert("b.parquet", "c.tfrecord") == "tfrecord  c.tfrecord  2500 records\n"
    assert (folder / "c.tfrecord").read_bytes() == (folder / "a.tfrecord").read_bytes()


def test_columns_have_the_types_and_the_nulls_of_the_features(folder):
    tfrecords.write(folder / "a.tfrecord", [
        example([("a", feature("int64", [1])), ("b", feature("float32", [0.5, 1.5]))]),
        example([("b", feature("float32", [])), ("c", feature("string", [b"\xff"]))])])
    convert("a.tfrecord", "a.parquet", "--compression", "gzip")
    table = parquet.read_table("a.parquet")
    assert table.schema.equals(pa.schema([("a", pa.int64()), ("b", pa.list_(pa.float32())), ("c", pa.binary())]))
    assert table.to_pydict() == {"a": [1, None], "b": [[0.5, 1.5], []], "c": [None, b"\xff"]}
    assert parquet.ParquetFile("a.parquet").metadata.row_group(0).column(0).compression == "GZIP"


def test_text_becomes_parquet_with_the_narrowest_types_and_returns(folder):
    (folder / "a.csv").write_bytes(b"id,name,rate\n7,x,1.5\n-8,y z,\n")
    convert("a.csv", "a.parquet", "--header")
    assert parquet.read_table("a.parquet").to_pydict() == {
        "id": [7, -8], "name": [b"x", b"y z"], "rate": [1.5, None]}
    convert("a.parquet", "b.csv")
    assert (folder / "b.csv").read_bytes() == b"id,name,rate\n7,x,1.5\n-8,y z,\n"


def test_values_of_other_types_become_int64_float32_and_strings(folder):
    table = pa.table({
        "bool": pa.array([True, None]), "small": pa.array([1, 2], pa.uint8()),
        "double": pa.array([1e300, 0.1]), "text": pa.array(["\u00e4", ""]),
        "kind": pa.array(["x", "x"]).dictionary_encode(), "pair": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))})
    parquet.write_table(table, "a.parquet")
    convert("a.parquet", "a.tfrecord")
    convert("a.tfrecord", "b.parquet")
    assert parquet.read_table("b.parquet").to_pydict() == {
        "bool": [1, None], "double": [math.inf, float(np.float32(0.1))], "kind": [b"x", b"x"],
        "pair": [[1, 2], [3, 4]], "small": [1, 2], "text": ["\u00e4".encode(), b""]}


@pytest.mark.parametrize("column, reason", [
    (pa.array([1], pa.timestamp("us")), "has the type timestamp"),
    (pa.array([2 ** 64 - 1], pa.uint64()), "has 18446744073709551615 in row 0 of row group 0"),
    (pa.array([[1, None]]), "has a null in a list in row 0 of row group 0")])
def test_values_that_no_feature_can_have_are_refused_unless_other_columns_are_named(folder, column, reason):
    parquet.write_table(pa.table({"x": column, "y": pa.array([5])}), "a.parquet")
    code, _, error = ascpipe("convert", "a.parquet", "a.tfrecord")
    assert code == 1 and "'x'" in error and reason in error
    assert not (folder / "a.tfrecord").exists()
    convert("a.parquet", "y.csv", "--columns", "y")
    assert (folder / "y.csv").read_bytes() == b"y\n5\n"


def test_columns_with_the_same_name_are_refused(folder):
    parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"]), "a.parquet")
    for arguments in (["a.parquet", "a.csv"], ["a.parquet", "a.csv", "--columns", "x"]):
        code, _, error = ascpipe("convert", *arguments)
        assert code in (1, 2) and "a.parquet has 2 columns with the name 'x'" in error, error
        assert not (folder / "a.csv").exists()


def test_files_with_other_columns_lists_for_text_and_types_are_refused(folder):
    parquet.write_table(pa.table({"x": pa.array([[1, 2]])}), "a.parquet")
    parquet.write_table(pa.table({"x": pa.array([[1, 2]]), "y": pa.array([5])}), "b.parquet")
    for arguments, reason in ((["a.parquet", "b.parquet", "c.tfrecord"], "have different columns"),
                              (["a.parquet", "c.csv"], "'x' has up to 2 values"),
                              (["a.parquet", "c.csv", "--columns", "x:int64"], "features of Parquet files have types")):
        code, _, error = ascpipe("convert", *arguments)
        assert code in (1, 2) and reason in error, error
        assert not list(folder.glob("c.*"))
