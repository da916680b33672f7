"""``ascpipe data index | head | check`` on CSV and TSV files, as separate processes and with their exit codes."""
import gzip
import json

import pytest

from tests.integration.test_data_commands import ascpipe
from tests.support import tfrecords

pytestmark = pytest.mark.usefixtures("forked_programs")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_bytes(b'\xef\xbb\xbflabel,name,x,id\r\n1,"a ""b""\r\nc",1.5,0a519c5c\r\n'
                               b"0,,2,68fd1e64\r\n,\xff,,\r\n")
    (data / "b.tsv.gz").write_bytes(gzip.compress(b"".join(b"%d\tname\n" % number for number in range(5000))))
    monkeypatch.chdir(data)
    return data


def test_an_index_belongs_to_the_settings_of_the_text(folder):
    place = folder / ".a.csv.ascindex"
    assert ascpipe("index", "a.csv") == (0, "new   a.csv  4 records: {}\n".format(place), "")
    assert ascpipe("index", "a.csv", "--header") == (0, "new   a.csv  3 records: {}\n".format(place), "")
    assert ascpipe("index", "a.csv", "--header") == (0, "kept  a.csv  3 records: {}\n".format(place), "")
    assert ascpipe("index", "a.csv", "--no-quotes") == (0, "new   a.csv  5 records: {}\n".format(place), "")
    zipped = folder / ".b.tsv.gz.ascindex"
    assert ascpipe("index", "b.tsv.gz") == (0, "new   b.tsv.gz  5000 records: {}\n".format(zipped), "")


def test_head_shows_fields_by_name_or_number(folder):
    code, text, error = ascpipe("head", "a.csv", "--header", "--json")
    shown = json.loads(text)
    assert (code, error) == (0, "")
    assert shown["columns"] == [
        {"name": "label", "type": "int64", "records": 2}, {"name": "name", "type": "string", "records": 2},
        {"name": "x", "type": "float32", "records": 2}, {"name": "id", "type": "hex", "records": 2}]
    assert [one["fields"] for one in shown["records"]] == [
        {"label": "1", "name": 'a "b"\r\nc', "x": "1.5", "id": "0a519c5c"},
        {"label": "0", "name": "", "x": "2", "id": "68fd1e64"}, {"label": "", "name": {"hex": "ff"}, "x": "", "id": ""}]
    code, text, _ = ascpipe("head", "b.tsv.gz", "--records", "1")
    assert code == 0 and "record 0 of b.tsv.gz, 6 bytes at byte 0" in text and "1       string    name" in text


def test_check_finds_fields_and_types_of_all_records(folder):
    code, text, error = ascpipe("check", "b.tsv.gz")
    assert (code, error) == (0, "") and text.startswith("ok   b.tsv.gz  5000 records, 0.0 MB, 2 fields\n")
    code, text, _ = ascpipe("check", "a.csv", "b.tsv.gz", "--json")
    shown = json.loads(text)
    assert code == 1 and shown["difference"] == "a.csv has 4 fields, but b.tsv.gz has 2" and shown["columns"] == []
    assert [(one["records"], one["problems"]) for one in shown["files"]] == [(4, []), (5000, [])]


def test_check_continues_after_invalid_records(folder):
    (folder / "c.csv").write_bytes(b"1,2\n" + b"x\n" * 12 + b'3,"a"b",c\n4,5\n6,"\n')
    code, text, _ = ascpipe("check", "c.csv")
    lines = text.splitlines()
    assert code == 1
    assert lines[0] == ("BAD  c.csv  E330: c.csv: record 1 at byte 4 is invalid: Expect 2 fields but have 1 in record "
                        "1. Correct the record")
    assert lines[10:12] == ["BAD  c.csv  4 invalid records more",
                            "     c.csv  the other records: 2 records, 0.0 MB, 2 fields"]
    code, text, _ = ascpipe("head", "c.csv", "--json", "--records", "3")
    shown = json.loads(text)["records"]
    assert code == 0 and [one["fields"] for one in shown] == [{"0": "1", "1": "2"}, None, None]
    assert "record 2 at byte 6 is invalid: Expect 2 fields but have 1 in record 2" in shown[2]["problem"]


def test_text_files_and_tfrecord_files_are_not_shown_together(folder):
    tfrecords.write(folder / "c.tfrecord", [b"x"])
    code, _, error = ascpipe("check", "a.csv", "c.tfrecord")
    assert code == 1 and error.startswith("ascpipe: E277: a.csv is a CSV file, and c.tfrecord is a TFRECORD file.")


def test_head_and_check_print_feature_specs_or_name_the_option(folder):
    (folder / "clicks.csv").write_text("user,price\nu1,1.5\nu2,\n")
    specs = ('# feature specs of 2 records\nfeatures = {\n    "user": tf.io.FixedLenFeature([], tf.string),\n'
             '    "price": tf.io.FixedLenFeature([], tf.float32, 0.0),\n}\n')
    (folder / "rows.csv").write_text("user,price\nu1,1.5\nu2,2\n")
    for command in ("head", "check"):
        code, text, error = ascpipe(command, "clicks.csv", "--header")
        assert (code, error) == (0, "") and text.endswith(specs)
        code, text, error = ascpipe(command, "rows.csv")
        assert (code, error) == (0, "") and "features = {" not in text
        assert text.endswith("# record 0 looks like field names. For the feature specs, pass --header\n")
    (folder / "open.csv").write_text('a,b\n1,"\n')
    code, text, error = ascpipe("check", "open.csv")
    assert (code, error) == (1, "") and 'columns = ["0", "1"]' in text
