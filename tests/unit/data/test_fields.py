"""Names, numbers and types of the fields of text files."""
import pytest

from ascpipe.data import fields, formats
from ascpipe.data.columns import FLOAT32, HEX, INT64, STRING
from ascpipe.data.fields import Field, TextSchema
from ascpipe.data.records import RecordFile

CSV = formats.text()


def schema_of(path, content, record_format=CSV):
    path.write_bytes(content)
    schema = TextSchema(record_format)
    problems = []
    with RecordFile(str(path), None, record_format) as file:
        while not schema.check(file, 10, problems).is_end:
            pass
    return schema, [str(one) for one in problems]


@pytest.mark.parametrize(("values", "kind"), [
    (["1", "-20", " 3 ", ""], INT64), (["1", "2.5", "1e3"], FLOAT32), (["0a519c5c", "12345678"], HEX),
    (["12345678", "87654321"], INT64), (["0a519c5c", "5"], STRING), (["9223372036854775808"], FLOAT32),
    (["nan", "-inf", "0x1f"], FLOAT32), (["", ""], None), (["1", "x"], STRING), (["0" * 40 + "1", "1.5"], STRING)])
def test_the_type_is_the_narrowest_of_all_values(tmp_path, values, kind):
    schema, problems = schema_of(tmp_path / "a.csv", "".join("1," + one + "\n" for one in values).encode())
    assert problems == [] and schema.records == len(values)
    assert schema.fields(["a", "b"]) == [Field("a", INT64, len(values)), Field("b", kind, sum(map(bool, values)))]


def test_invalid_records_are_problems_and_not_counted(tmp_path):
    schema, problems = schema_of(tmp_path / "a.csv", b'a"b\n1,2\n3\n4,"5"x,\n6,7\n"\n')
    path = str(tmp_path / "a.csv")
    line = "E330: {}: record {} is invalid: {}. Correct the record"
    assert problems == [line.format(path, place, text) for place, text in (
        ("0 at byte 0", "Unquoted fields cannot have quotes/CRLFs inside"),
        ("2 at byte 8", "Expect 2 fields but have 1 in record 2"),
        ("3 at byte 10", "Quote inside a string has to be escaped by another quote"))]
    assert schema.fields(["one name"]) == [Field("0", INT64, 1), Field("1", INT64, 1)]


def test_names_are_read_from_the_header(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbflabel,"a ""b"",\nc"\n1,2\n')
    path = str(tmp_path / "a.csv")
    assert fields.names_of(path, formats.text(header=True), 2) == ["label", 'a "b",\nc']
    assert fields.names_of(path, formats.text(header=True), 3) == []
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbf"a,b","c"\n1,2\n')
    assert fields.header_of(path, formats.text(header=True)) == ["a,b", "c"]
    (tmp_path / "a.csv").write_bytes(b"")
    assert fields.header_of(path, formats.text(header=True)) == []
    (tmp_path / "a.csv").write_bytes(b'a"b,c\n')
    assert fields.header_of(path, formats.text(header=True)) == []
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbflabel,"a ""b"",\nc"\n1,2\n')
    assert fields.names_of(path, CSV, 2) == []


def test_types_of_several_files_are_merged():
    kinds = [[INT64, FLOAT32], [HEX, INT64], [None, STRING], [None, None], [HEX, HEX]]
    files = [[Field(str(place), one[number], 5) for place, one in enumerate(kinds)] for number in range(2)]
    assert [one.type for one in fields.merged(files)] == [FLOAT32, STRING, STRING, None, HEX]
    assert {one.records for one in fields.merged(files)} == {10}
    assert fields.merged([]) == []


def test_feature_specs_have_defaults_for_missing_values():
    found = [Field("user", INT64, 3), Field("price", FLOAT32, 2), Field("ad", HEX, 3), Field('a "b"', STRING, 1),
             Field("x", None, 0), Field("age", INT64, 0), Field("twice", INT64, 3), Field("twice", INT64, 3)]
    lines = fields.feature_lines(found, 3, header=True)
    assert lines == [
        "features = {",
        '    "user": tf.io.FixedLenFeature([], tf.int64),',
        '    "price": tf.io.FixedLenFeature([], tf.float32, 0.0),',
        '    "ad": tf.io.FixedLenFeature([], tf.string),',
        '    "a \\"b\\"": tf.io.FixedLenFeature([], tf.string, ""),',
        '    "x": tf.io.FixedLenFeature([], tf.string, ""),',
        '    "age": tf.io.FixedLenFeature([], tf.int64, 0),',
        "}"]
    assert fields.feature_lines([Field("0", INT64, 1)], 1, header=False) == [
        'columns = ["0"]  # the files have no header', "features = {",
        '    "0": tf.io.FixedLenFeature([], tf.int64),', "}"]


@pytest.mark.parametrize(("first", "others", "is_header"), [
    ("user,price", ["u1,1.5", "u2,2"], True), ("user,price", ["u1,1.5", "u2,"], True),
    ("user,price", ["u1,", "u2,"], False), ("user,item", ["u1,i1"], False),
    ("user,price", [], False), ("u1,1.5", ["u2,2"], False), ("a,a", ["1,2"], False), (",price", ["1,2"], False),
    ("price", ["nan", "-1e3"], True)])
def test_a_first_record_without_numbers_before_numbers_looks_like_names(first, others, is_header):
    records = [one.encode().split(b",") for one in [first, *others]]
    assert fields.looks_like_names(records[0], records[1:]) == is_header
