"""``ascpipe data convert``: records keep their values bit by bit, and an output is complete or absent."""
import functools
import gzip
import json
import os
import struct
import sys

import numpy as np
import pytest

from tests.integration.test_data_commands import ROOT, ascpipe, damage
from tests.support import terminals, tfrecords
from tests.support.examples import example, feature

pytestmark = pytest.mark.usefixtures("forked_programs")

FLOATS = np.random.RandomState(5).randint(0, 2**32, 3000, np.uint64).astype(np.uint32).view(np.float32)
FLOATS = [float(one) for one in FLOATS if np.isfinite(one) and (one == 0 or abs(one) > 1.2e-38)] + [
    0.0, -0.0, float("inf"), float("-inf"), 3.4028234663852886e38, 0.1]
TEXTS = [b"", b"plain", b'a "quoted" text', b"comma, tab\t", b"two\r\nlines\n", b" spaces ", b"\xff\xfe\x00", b'"',
         "\u00e4\u4e2d".encode(), b"1.50", b"007"]
INTS = [0, 1, -1, 2**63 - 1, -2**63, 10**18]


@functools.lru_cache(maxsize=None)
def row(number):
    return example([("f", feature("float32", [FLOATS[number]])), ("i", feature("int64", [INTS[number % len(INTS)]])),
                    ("s", feature("string", [TEXTS[number % len(TEXTS)]]))])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    tfrecords.write(tmp_path / "a.tfrecord", [row(number) for number in range(len(FLOATS))])
    return tmp_path


def convert(*arguments):
    code, text, error = ascpipe("convert", *arguments)
    assert (code, error) == (0, ""), error
    return text


@pytest.mark.parametrize("between", ["b.csv", "b.tsv", "b.csv.gz"])
def test_tfrecord_files_are_the_same_bytes_after_a_round_trip_through_text(folder, between):
    assert convert("a.tfrecord", between) == "{}  {}  {} records\n".format(between.split(".")[1], between, len(FLOATS))
    assert ("gz" in between) == ((folder / between).read_bytes()[:2] == b"\x1f\x8b")
    assert convert(between, "c.tfrecord", "--header") == "tfrecord  c.tfrecord  {} records\n".format(len(FLOATS))
    assert (folder / "c.tfrecord").read_bytes() == (folder / "a.tfrecord").read_bytes()


def test_text_is_copied_to_text_field_by_field(folder):
    (folder / "a.csv").write_bytes(b'\xef\xbb\xbfid,"my name",x\r\n007,"a ""b"",c",1.50\r\n,\xff,\r\n')
    convert("a.csv", "a.tsv", "--header")
    assert (folder / "a.tsv").read_bytes() == b'id\tmy name\tx\n007\t"a ""b"",c"\t1.50\n\t\xff\t\n'
    convert("a.tsv", "b.csv", "--header")
    assert (folder / "b.csv").read_bytes() == b'id,my name,x\n007,"a ""b"",c",1.50\n,\xff,\n'
    convert("a.csv", "c.csv", "--header", "--columns", "x,id", "--no-output-header")
    assert (folder / "c.csv").read_bytes() == b"1.50,007\n,\n"


def test_fields_get_the_narrowest_type_and_empty_fields_no_value(folder):
    (folder / "a.csv").write_bytes(b"i,f,s,h,n\n1,2.5,x,0a519c5c,\n,,,68fd1e64,\n")
    convert("a.csv", "x.tfrecord", "--header")
    assert (folder / "x.tfrecord").read_bytes() == tfrecords.content([
        example([("i", feature("int64", [1])), ("f", feature("float32", [2.5])), ("s", feature("string", [b"x"])),
                 ("h", feature("string", [b"0a519c5c"])), ("n", feature("string", [b""]))]),
        example([("s", feature("string", [b""])), ("h", feature("string", [b"68fd1e64"])),
                 ("n", feature("string", [b""]))])])
    convert("a.csv", "b.tfrecord", "--header", "--columns", "h:hex,i:float32")
    assert (folder / "b.tfrecord").read_bytes() == tfrecords.content([
        example([("h", feature("int64", [0x0a519c5c])), ("i", feature("float32", [1]))]),
        example([("h", feature("int64", [0x68fd1e64]))])])
    convert("b.tfrecord", "c.csv", "--columns", "i,h")
    assert (folder / "c.csv").read_bytes() == b"i,h\n1.0,173120604\n,1761418852\n"


def test_columns_name_the_fields_of_text_without_a_header(folder):
    (folder / "a.csv").write_bytes(b"1,2\n3,4\n")
    convert("a.csv", "named.tfrecord", "--columns", "user,item:string")
    convert("a.csv", "numbered.tfrecord")
    for name, user, item, kind, values in (("named", "user", "item", "string", (b"2", b"4")),
                                           ("numbered", "0", "1", "int64", (2, 4))):
        assert (folder / (name + ".tfrecord")).read_bytes() == tfrecords.content([
            example([(user, feature("int64", [number])), (item, feature(kind, [value]))])
            for number, value in zip((1, 3), values)])


def test_criteo_logs_become_the_numbers_that_asc_data_read_reads(folder):
    fields = [b"1", *(b"%d" % number for number in range(12)), b"", *(b"%08x" % number for number in range(25)), b""]
    (folder / "day_0").write_bytes(b"\t".join(fields) + b"\n")
    convert("day_0", "day_0.tfrecord", "--format", "criteo")
    values = [("label", 1), *(("I%d" % (number + 1), number) for number in range(12)), ("I13", 0),
              *(("C%d" % (number + 1), number) for number in range(25)), ("C26", 0)]
    assert (folder / "day_0.tfrecord").read_bytes() == tfrecords.content([
        example([(name, feature("int64", [value])) for name, value in values])])


def test_several_files_become_one_and_compressed_output_is_reproducible(folder):
    tfrecords.write(folder / "b.tfrecord", tfrecords.clicks(300), "ZLIB")
    tfrecords.write(folder / "c.tfrecord", tfrecords.clicks(300, 300))
    for name in ("one", "two"):
        convert("[bc].tfrecord", name, "--to", "tfrecord", "--compression", "gzip")
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()
    assert json.loads(ascpipe("head", "one", "--json", "--records", "600")[1])["records"][599]["features"]["user"] == {
        "type": "int64", "values": [599 * 7]}
    convert("one", "d.tfrecord", "--columns", "user,tags")
    assert (folder / "d.tfrecord").read_bytes() == tfrecords.content([
        example([("user", feature("int64", [number * 7])), ("tags", feature("int64", list(range(number % 4))))])
        for number in range(600)])


def test_one_empty_field_is_a_record(folder):
    (folder / "a.csv").write_bytes(b'x\n""\ny\n""\n')
    convert("a.csv", "b.csv", "--header")
    assert (folder / "b.csv").read_bytes() == b'x\n""\ny\n""\n'
    (folder / "empty.csv").write_bytes(b"x,y\n")
    assert convert("empty.csv", "empty.tsv", "--header") == "tsv  empty.tsv  0 records\n"
    assert (folder / "empty.tsv").read_bytes() == b"x\ty\n"


@pytest.mark.parametrize("arguments, text", [
    (("a.tfrecord", "a.tfrecord"), "E277: The output a.tfrecord exists. Nothing was read. Pass another path, or --fo"),
    (("a.tfrecord", "dir"), "E277: The name dir has no format that can be written"),
    (("a.tfrecord", "dir", "--to", "csv"), "E277: The output dir is a directory"),
    (("a.tfrecord", "out.orc"), "E277: The name out.orc has no format that can be written"),
    (("a.tfrecord", "none/out.csv"), "E339: none/out.csv cannot be written: No such file or directory"),
    (("clicks.tfrecord", "out.csv"), "E277: Feature 'dense' has up to 3 values in a record"),
    (("clicks.tfrecord", "out.csv", "--columns", "user,nobody"), "E260: --columns has the name 'nobody'"),
    (("clicks.tfrecord", "out.csv", "--columns", "user:int64"), "E260: --columns has types"),
    (("clicks.tfrecord", "out.csv", "--columns", "user,,"), "E260: Part '' of --columns is empty"),
    (("a.csv", "out.tfrecord", "--columns", "a,a"), "E260: Part 'a' of --columns is empty, repeated"),
    (("a.csv", "out.tfrecord", "--columns", "a,b:int32"),
     "E330: a.csv: record 1 at byte 4 is invalid: Field 1 is not a valid int32: x. Correct the record, or read"),
    (("a.csv", "b.csv", "out.tfrecord"), "E277: a.csv has 2 fields, but b.csv has 3"),
    (("a.csv", "out.tfrecord", "--format", "criteo"), "E277: a.csv has 1 fields, and the Criteo logs have 40"),
    (("a.csv", "a.tfrecord", "out.tsv"), "E277: a.csv is a CSV file, and a.tfrecord is a TFRECORD file"),
    (("bad.tfrecord", "out.csv"), "E330: bad.tfrecord: record 1 at byte "),
    (("bad.csv", "out.tfrecord"), "E330: bad.csv: record 1 at byte 4 is invalid"),
    (("not.tfrecord", "out.csv"), "E339: not.tfrecord: record 0 is not a tf.train.Example"),
])
def test_errors_leave_no_output(folder, arguments, text):
    (folder / "dir").mkdir()
    tfrecords.write(folder / "clicks.tfrecord", tfrecords.clicks(10))
    tfrecords.write(folder / "bad.tfrecord", [row(1), row(2)])
    damage(folder / "bad.tfrecord", -5)
    tfrecords.write(folder / "not.tfrecord", [b"x"])
    (folder / "a.csv").write_bytes(b"1,2\n3,x\n")
    (folder / "b.csv").write_bytes(b"1,2,3\n")
    (folder / "bad.csv").write_bytes(b"1,2\n3\n")
    before = {name: os.stat(name).st_mtime_ns for name in os.listdir()}
    code, _, error = ascpipe("convert", *arguments)
    assert (code, text in error) == (1, True), error
    assert {name: os.stat(name).st_mtime_ns for name in os.listdir()} == before


def test_force_replaces_the_output_even_if_it_is_an_input(folder):
    before = (folder / "a.tfrecord").read_bytes()
    convert("a.tfrecord", "a.tfrecord", "--force", "--compression", "gzip")
    assert gzip.decompress((folder / "a.tfrecord").read_bytes()) == before


def test_the_result_as_json(folder):
    assert json.loads(convert("a.tfrecord", "b.csv", "--json")) == {
        "output": "b.csv", "format": "csv", "records": len(FLOATS)}


def test_a_terminal_shows_a_progress_bar(folder):
    command = [sys.executable, "-m", "ascpipe", "data", "convert", str(folder / "a.tfrecord"), str(folder / "b.csv")]
    with terminals.Terminal(command, 120, 30, {**os.environ, "PYTHONPATH": ROOT}) as terminal:
        assert terminal.ended() == 0
        assert "Traceback" not in terminal.said and terminals.SHOWN in terminal.said
        assert "csv  {}".format(folder / "b.csv") in terminal.said


def test_not_a_number_remains_not_a_number(folder):
    tfrecords.write(folder / "n.tfrecord", [example([("f", feature("float32", [float("nan")]))])])
    convert("n.tfrecord", "n.csv")
    assert (folder / "n.csv").read_bytes() == b"f\nnan\n"
    convert("n.csv", "m.tfrecord", "--header", "--columns", "f:float32")
    assert struct.pack("<f", float("nan")) in (folder / "m.tfrecord").read_bytes()
