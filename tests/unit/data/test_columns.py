"""Columns of text records have the values and errors of the twin in plain Python."""
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascpipe.data import columns as cols
from ascpipe.data import formats
from ascpipe.data.columns import FLOAT32, FLOAT64, HEX, INT32, INT64, STRING, Column, ColumnParser
from ascpipe.errors import DataUnreadableError
from tests.reference import csv_records
from tests.support import csv_fields, texts

CSV = formats.text()


def bits(value, kind=FLOAT64):
    """Return a value so that equal values have equal bits."""
    return struct.pack("<f" if kind == FLOAT32 else "<d", value) if isinstance(value, float) else value


def of_twin(record, columns, **options):
    try:
        values = csv_records.parse(record, [(one.type, one.default) for one in columns], **options)
    except csv_records.Invalid as error:
        return None, str(error)
    return [bits(value, one.type) for value, one in zip(values, columns)], None


def of_parser(parser, record, columns):
    values, error = parser.parse([record])
    return None if error is not None else [bits(one[0], of.type) for one, of in zip(values, columns)], error


def test_random_records_have_the_values_and_errors_of_the_twin(seed):
    draw = texts.seeded(seed)
    invalid = 0
    for _ in range(150):
        columns = csv_fields.columns(draw, [*csv_fields.TYPES, HEX])
        delimiter, use_quotes, na_value = draw.choice([b",", b"\t"]), draw.random() < 0.8, draw.choice([b"", b"NA"])
        selects = draw.random() < 0.4
        select_cols = sorted(draw.sample(range(8), len(columns))) if selects else None
        parser = ColumnParser(columns, formats.text(delimiter.decode(), use_quotes), na_value, select_cols)
        for _ in range(40):
            count = len(columns) if not selects else draw.randint(select_cols[-1], 9)
            kinds = [STRING] * count
            for place, column in zip(select_cols or range(count), columns):
                kinds[place:place + 1] = [column.type]
            record = delimiter.join(texts.quoted(csv_fields.field(draw, kind), delimiter, draw) for kind in kinds)
            if draw.random() < 0.1:
                record = texts.mutated(record, draw)
            expected = of_twin(record, columns, delimiter=delimiter, use_quotes=use_quotes, na_value=na_value,
                               select_cols=select_cols)
            assert of_parser(parser, record, columns) == expected, record
            invalid += expected[0] is None
    assert 1500 < invalid < 4500


@given(st.binary(max_size=30) | st.lists(st.sampled_from([b'"', b'"', b",", b"\n", b"\r", b"a", b"1"])).map(b"".join),
       st.booleans(), st.sampled_from([None, [0, 1], [1, 3]]))
def test_any_bytes_have_the_values_and_errors_of_the_twin(record, use_quotes, select_cols):
    columns = [Column("a", STRING, b"d"), Column("b", INT64, 3)]
    parser = ColumnParser(columns, formats.text(",", use_quotes), b"", select_cols)
    expected = of_twin(record, columns, use_quotes=use_quotes, select_cols=select_cols)
    assert of_parser(parser, record, columns) == expected


@pytest.mark.parametrize("kind", [INT32, INT64, FLOAT32, FLOAT64, HEX])
def test_numbers_are_those_of_the_twin(kind, seed):
    draw = texts.seeded(seed)
    columns = [Column("x", kind)]
    parser = ColumnParser(columns, CSV)
    valid = 0
    for _ in range(6000):
        text = draw.choice([csv_fields.real(draw).encode(), csv_fields.field(draw, kind)])
        expected = of_twin(text, columns)
        assert of_parser(parser, text, columns) == expected, text
        valid += expected[0] is not None
    assert valid > 1000


@given(st.floats(width=32, allow_nan=False) | st.floats(allow_nan=False))
def test_floats_that_python_writes_are_read_with_the_same_bits(value):
    single, double = [Column("x", FLOAT32)], [Column("x", FLOAT64)]
    text = repr(value).encode()
    if len(text) > 31:
        return
    assert of_parser(ColumnParser(double, CSV), text, double)[0] == [bits(value)]
    assert of_parser(ColumnParser(single, CSV), text, single) == of_twin(text, single)


def test_a_batch_is_parsed_up_to_its_first_invalid_record():
    columns = [Column("label", INT32, 0), Column("text", STRING, b"none"), Column("id", HEX, 5)]
    parser = ColumnParser(columns, CSV)
    assert parser.parse([b"1,a,ff", b',"say ""no""",', b"3,,0000000A"]) == (
        [[1, 0, 3], [b"a", b'say "no"', b"none"], [255, 5, 10]], None)
    assert parser.parse([b"1,a,ff", b"2,b", b"3,c,1"]) == (
        [[1], [b"a"], [255]], "Expect 3 fields but have 2 in record 1")
    assert parser.parse([b"1,a,ff", b"2,b,xyz"])[1] == "Field 2 in record 1 is not a valid hexadecimal int64: xyz"
    assert parser.parse([]) == ([[], [], []], None)


def test_errors_show_bytes_that_are_not_utf_8_escaped_and_long_fields_cut():
    parser = ColumnParser([Column("x", INT32)], CSV)
    for text, shown in ((b"a\xff", r"a\xff"), ("\u00e9\U0001f600".encode(), "\u00e9\U0001f600"),
                        (b"\xed\xa0\x80", r"\xed\xa0\x80"), (b"\xc3", r"\xc3"), (b"\0", r"\x00"),
                        (b"\xf4\x90\x80\x80", r"\xf4\x90\x80\x80"), (b"y" * 5000, "y" * 1000 + "...")):
        assert parser.parse([text])[1] == "Field 0 in record 0 is not a valid int32: " + shown


@pytest.mark.parametrize("select_cols", [[1, 1], [2, 1], [-1, 0], [0, 100000]])
def test_columns_that_are_not_in_order_are_refused(select_cols):
    with pytest.raises(DataUnreadableError, match="E332: A column reads field"):
        ColumnParser([Column("a", INT32), Column("b", INT32)], CSV, b"", select_cols)


def test_a_delimiter_without_meaning_is_refused():
    with pytest.raises(DataUnreadableError, match="E332: The delimiter of fields is the byte 34"):
        ColumnParser([Column("a", INT32)], formats.text('"'))


def test_all_types_have_a_number_and_an_array():
    assert cols.NUMBERS.keys() == cols._ARRAYS.keys() == {*csv_fields.TYPES, HEX}
