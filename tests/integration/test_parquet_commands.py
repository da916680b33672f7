"""``ascpipe data head | check | index`` on Parquet files."""
import datetime
import json
import os
import subprocess
import sys

import pytest

from tests.integration.test_data_commands import ascpipe
from tests.support import parquets, tfrecords

pytestmark = pytest.mark.usefixtures("forked_programs")

pa = parquets.pyarrow


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parquets.write(tmp_path / "a.parquet", parquets.clicks(30), 7)
    parquets.write(tmp_path / "b.parquet", parquets.clicks(5, 30))
    return tmp_path


def test_head_shows_records_and_specs(folder):
    code, text, error = ascpipe("head", "*.parquet", "--records", 2)
    assert (code, error) == (0, "")
    assert "record 1 of a.parquet\n" in text
    assert '    "dense": tf.io.FixedLenFeature([3], tf.float32),\n' in text
    assert '    "tags": tf.io.VarLenFeature(tf.int64),\n' in text
    code, text, _ = ascpipe("head", "a.parquet", "b.parquet", "--records", 31, "--json")
    shown = json.loads(text)
    assert code == 0 and len(shown["records"]) == 31
    assert shown["records"][3] == {"path": "a.parquet", "number": 3, "problem": None, "features": {
        "dense": {"type": "float32", "values": [3.0, 0.5, -1.0]}, "label": {"type": "float32", "values": [1.0]},
        "query": {"type": "string", "values": ["text 3"]}, "tags": {"type": "int64", "values": [0, 1, 2]},
        "user": {"type": "int64", "values": [21]}, "place": {"type": "string", "values": ["3"]}}}
    assert (shown["records"][30]["path"], shown["records"][30]["number"]) == ("b.parquet", 0)
    assert shown["features"]["tags"] == {"type": "int64", "records": 31, "least": 0, "most": 3,
                                         "spec": "tf.io.VarLenFeature(tf.int64)"}


def test_head_shows_values_that_no_feature_can_read(folder):
    parquets.write(folder / "c.parquet", {"when": [datetime.datetime(2020, 1, 2)], "is_new": [True], "bytes": [b"\xff"],
                                          "none": pa.array([None], pa.int64())})
    code, text, _ = ascpipe("head", "c.parquet", "--json")
    shown = json.loads(text)
    assert code == 0 and shown["records"][0]["features"] == {
        "when": {"type": "timestamp[us]", "values": ["2020-01-02 00:00:00"]},
        "is_new": {"type": "int64", "values": [1]},
        "bytes": {"type": "string", "values": [{"hex": "ff"}]}, "none": {"type": "int64", "values": []}}
    assert {name: one["spec"] for name, one in shown["features"].items()} == {
        "is_new": "tf.io.FixedLenFeature([], tf.int64)", "bytes": "tf.io.FixedLenFeature([], tf.string)",
        "none": "tf.io.VarLenFeature(tf.int64)"}
    parquets.write(folder / "empty.parquet", {"a": pa.array([], pa.int64())})
    assert ascpipe("head", "empty.parquet") == (0, "the files have no records\n", "")


def test_check_of_whole_files_succeeds(folder):
    code, text, error = ascpipe("check", "a.parquet", "b.parquet")
    assert (code, error) == (0, "")
    assert text.startswith("ok   a.parquet  30 records, 0.0 MB, 6 features\nok   b.parquet  5 records, ")
    assert "# feature specs of 35 records\n" in text


def test_check_names_each_damaged_row_group_and_fails(folder):
    place = parquets.parquet.read_metadata(str(folder / "a.parquet")).row_group(1).column(0).data_page_offset
    content = bytearray((folder / "a.parquet").read_bytes())
    content[place:place + 20] = b"\xff" * 20
    (folder / "a.parquet").write_bytes(bytes(content))
    code, text, _ = ascpipe("check", "a.parquet")
    lines = text.splitlines()
    assert code == 1
    assert lines[0].startswith("BAD  a.parquet  E330: Row group 1 of a.parquet cannot be decoded: ")
    assert lines[1].startswith("     a.parquet  the other records: 23 records, ")
    (folder / "b.parquet").write_bytes(b"PAR1")
    code, text, _ = ascpipe("check", "b.parquet", "--json")
    checked = json.loads(text)["files"][0]
    assert code == 1 and [one["code"] for one in checked["problems"]] == ["E330"]
    assert (checked["records"], checked["more_problems"]) == (0, 0)


def test_check_finds_columns_with_different_types(folder):
    parquets.write(folder / "c.parquet", {"user": [1.5]})
    code, text, _ = ascpipe("check", "a.parquet", "c.parquet")
    assert code == 1 and "BAD  feature user: its type is int64, but c.parquet has float32\n" in text


def test_an_index_is_not_needed(folder):
    before = sorted(os.listdir(str(folder)))
    assert ascpipe("index", "a.parquet") == (0, "none  a.parquet  Parquet files need no index, because the footer has "
                                                "their row groups\n", "")
    code, text, _ = ascpipe("index", "a.parquet", "--json")
    assert (code, json.loads(text)) == (0, {"files": [
        {"path": "a.parquet", "index": None, "records": None, "is_new": False}]})
    assert sorted(os.listdir(str(folder))) == before


@pytest.mark.parametrize("verb", ["head", "check"])
def test_other_files_are_read_by_another_command(folder, verb):
    tfrecords.write(folder / "c.tfrecord", tfrecords.clicks(3))
    code, text, error = ascpipe(verb, "a.parquet", "c.tfrecord")
    assert (code, text) == (1, "") and "E277: a.parquet is a PARQUET file, and c.tfrecord is a TFRECORD file" in error


def test_without_pyarrow_the_error_has_the_command(folder, monkeypatch):
    (folder / "hidden").mkdir()
    (folder / "hidden" / "pyarrow.py").write_text("raise ImportError('hidden')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(
        [str(folder / "hidden"), *filter(None, [os.environ.get("PYTHONPATH")]), *sys.path]))
    done = subprocess.run([sys.executable, "-m", "ascpipe", "data", "head", "a.parquet"], check=False, timeout=60,
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ("ascpipe: E340: a.parquet is a Parquet file, which needs pyarrow; "
                           "install it with `pip install 'ascpipe[parquet]'`\n")
