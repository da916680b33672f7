"""Paths and patterns become a list of files, and formats are recognized by content before names."""
import gzip
import zlib
from pathlib import Path

import pytest

from ascpipe.data import files
from ascpipe.errors import DataFilesError, DataUnreadableError
from tests.support import tfrecords


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("b.tfrecord", "a.tfrecord", "c.csv", ".a.tfrecord.ascindex", "x.ascindex", "odd[1].tfrecord"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.tfrecord").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_are_in_the_order_of_the_arguments_and_patterns_are_sorted(folder):
    assert files.find(["c.csv", "*.tfrecord", "b.tfrecord"]) == [
        "c.csv", "a.tfrecord", "b.tfrecord", "odd[1].tfrecord", "b.tfrecord"]
    assert files.find("?.*") == ["a.tfrecord", "b.tfrecord", "c.csv"]
    assert files.find("*") == ["a.tfrecord", "b.tfrecord", "c.csv", "odd[1].tfrecord"]
    assert files.find(("**/*.tfrecord",))[-1] == "sub/d.tfrecord"
    assert files.find(Path("a.tfrecord")) == ["a.tfrecord"]
    assert files.find("odd[1].tfrecord") == ["odd[1].tfrecord"]


@pytest.mark.parametrize(("given", "said"), [
    ("nothing.tfrecord", "nothing.tfrecord does not exist. Nothing was read. Check the path; the working directory"),
    ("*.nothing", "The pattern *.nothing matches no file"), ("sub", 'sub is a directory, not a file'),
    ("hdfs://host/data", "hdfs://host/data is a remote path, and ascpipe reads only local files"),
    ("s3://bucket/*.tfrecord", "is a remote path"), ("", "'' is not a path"), ([], "are []"), (None, "are None"),
    ([7], "7 is not a path"), ([b"a"], "b'a' is not a path"), ("a\0b", "is not a path"),
    (["a.tfrecord", "x"], "x does not exist")])
def test_other_paths_are_refused_with_a_cure(folder, given, said):
    with pytest.raises(DataFilesError) as caught:
        files.find(given)
    assert said in str(caught.value) and str(caught.value).startswith("E277: ")


@pytest.mark.parametrize(("name", "content", "kind", "compression"), [
    ("a", tfrecords.content([b"x"]), files.TFRECORD, ""),
    ("a.csv", tfrecords.content([b"x"]), files.TFRECORD, ""),
    ("a", gzip.compress(tfrecords.content([b"x"])), files.TFRECORD, "GZIP"),
    ("a", zlib.compress(tfrecords.content([b"x"])), files.TFRECORD, "ZLIB"),
    ("a", zlib.compress(tfrecords.content([b"x"]), 9), files.TFRECORD, "ZLIB"),
    ("a", tfrecords.content([b"x" * 0x8b1f]), files.TFRECORD, ""),
    ("a.tfrecord", b"damaged", files.TFRECORD, ""), ("part-0.tfrecord.gz", b"\x1f\x8bdamaged", files.TFRECORD, "GZIP"),
    ("data.tfrecords-00001-of-00100", b"", files.TFRECORD, ""), ("a", b"", files.TFRECORD, ""),
    ("a.csv", b"a,b\n1,2\n", files.CSV, ""), ("a.csv.gz", gzip.compress(b"a,b\n1,2\n"), files.CSV, "GZIP"),
    ("a.tsv", b"", files.TSV, ""), ("day_0", b"1\t2\n", files.TSV, ""), ("day_0", b"1,2\n", files.CSV, ""),
    ("a", "\xe9".encode() * 2049, files.CSV, ""), ("a", b"PAR1xxxx", files.PARQUET, ""),
    ("x_tab", b"x,y\n", files.CSV, ""), ("xyz.txt", b"x,y\n", files.CSV, "")])
def test_formats_are_recognized(tmp_path, name, content, kind, compression):
    (tmp_path / name).write_bytes(content)
    assert files.recognized(str(tmp_path / name)) == (str(tmp_path / name), kind, compression)


def test_an_unknown_format_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"\x00\x01\xff\xfe" * 100)
    with pytest.raises(DataFilesError, match="it begins with the bytes 0001fffe0001fffe"):
        files.recognized(str(tmp_path / "a"))
    with pytest.raises(DataUnreadableError, match="nothing cannot be read: No such file"):
        files.recognized(str(tmp_path / "nothing"))


def test_text_files_and_tfrecord_files_are_not_mixed(tmp_path):
    tfrecords.write(tmp_path / "a", [b"x"])
    (tmp_path / "b.csv").write_bytes(b"1,2\n")
    (tmp_path / "c.tsv").write_bytes(b"1\t2\n")
    texts = [str(tmp_path / name) for name in ("b.csv", "c.tsv")]
    assert [one.format for one in files.of_one_kind(texts)] == ["csv", "tsv"]
    assert [one.format for one in files.readable([str(tmp_path / "a"), *texts])] == ["tfrecord", "csv", "tsv"]
    with pytest.raises(DataFilesError, match="E277: .*a is a TFRECORD file, and .*b.csv is a CSV file. Nothing"):
        files.of_one_kind([str(tmp_path / "a"), *texts])
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataFilesError, match="b.csv is a CSV file, and .*d.parquet is a PARQUET file. Nothing"):
        files.of_one_kind([texts[0], str(tmp_path / "d.parquet")])
    (tmp_path / "d.parquet").write_bytes(gzip.compress(b"PAR1xxxx"))
    with pytest.raises(DataFilesError, match="d.parquet is a Parquet file that is compressed .GZIP. as a whole"):
        files.readable(str(tmp_path / "d.parquet"))
