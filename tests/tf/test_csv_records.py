"""Text records and their columns equal the results of TensorFlow's CsvDataset and decode_csv."""
import itertools

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.data import formats
from ascpipe.data.columns import FLOAT32, FLOAT64, INT32, INT64, STRING, Column, ColumnParser
from ascpipe.data.records import RecordFile
from ascpipe.errors import DamagedRecordsError
from tests.support import csv_fields, texts, tfrecords
from tests.support.covering import some
from tests.support.tensorflows import IS_TENSORFLOW_1, text_of

DTYPES = {INT32: tf.int32, INT64: tf.int64, FLOAT32: tf.float32, FLOAT64: tf.float64, STRING: tf.string}
OPEN_QUOTE = "Reached end of file without closing quoted field in record"
NUMBERS = [INT32, INT64, FLOAT32, FLOAT64]


def defaults_of(columns):
    return [tf.constant([] if one.default is None else [one.default], DTYPES[one.type]) for one in columns]


def bits(values):
    """Return the values of an array or a list so that equal values have equal bits."""
    return [one.tobytes() if isinstance(one, np.floating) else one for one in values]


def first_line(error):
    return text_of(error).split("\n\t", 1)[0]


class Rows:
    """The first field of each record of a file as CsvDataset reads it, or the error of the record."""

    def __init__(self, delimiter, use_quotes, header, compression):
        self.path = tf.compat.v1.placeholder(tf.string, [])
        dataset = tf.data.experimental.CsvDataset(self.path, [tf.constant(["none"])], header=header, select_cols=[0],
                                                  field_delim=delimiter, use_quote_delim=use_quotes,
                                                  compression_type=compression or None)
        self.iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        self.next = self.iterator.get_next()

    def read(self, session, path):
        session.run(self.iterator.initializer, {self.path: path})
        read = []
        while True:
            try:
                read.append(session.run(self.next)[0])
            except tf.errors.InvalidArgumentError as error:
                read.append(error.message)
            except tf.errors.OutOfRangeError:
                return read


def first_fields(path, record_format):
    """Return the same from our records: the first fields are found by decode_csv's rules, in plain Python."""
    read = []
    delimiter = bytes([record_format.delimiter])
    try:
        with RecordFile(path, None, record_format) as file:
            for record in file:
                read.append(_first_field(record.data, delimiter, record_format.use_quote_delim))
    except DamagedRecordsError:
        read.append(OPEN_QUOTE)
    return read


def _first_field(record, delimiter, use_quotes):
    if not use_quotes or not record.startswith(b'"'):
        return record.partition(delimiter)[0] or b"none"
    end = 1
    while record[end:end + 1] != b'"' or record[end + 1:end + 2] not in (delimiter, b""):
        end += 2 if record[end:end + 1] == b'"' else 1
    return record[1:end].replace(b'""', b'"') or b"none"


@pytest.mark.parametrize("files", [40, pytest.param(400, marks=pytest.mark.long)])
@pytest.mark.parametrize("number, settings", enumerate(itertools.product([",", "\t"], [True, False], [False, True])))
def test_records_are_those_of_csv_dataset(tmp_path, number, settings, files, seed):
    """Most of the mutated files have records that CsvDataset refuses. It continues with the record after them."""
    draw = texts.seeded(seed)
    compression = ["", "GZIP", "ZLIB"][number % 3]
    path = str(tmp_path / "data")
    invalid = 0
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rows = Rows(*settings, compression)
        for _ in range(files):
            whole = texts.content(texts.rows(draw, 6, 3), draw, settings[0].encode(),
                                  draw.choice([b"\n", b"\r\n", b"\r"]))
            content = draw.choice([whole, texts.mutated(whole, draw), texts.mutated(whole, draw), texts.soup(draw, 40)])
            with open(path, "wb") as file:
                file.write(tfrecords.compressed(content, compression))
            expected = rows.read(session, path)
            ours = first_fields(path, formats.text(*settings))
            if settings[2] and any("Can't read header of file" in str(one) for one in expected):
                continue  # an empty file, or a header that CsvDataset refuses
            assert len(ours) == len(expected), content
            for one, theirs in zip(ours, expected):
                is_refused = isinstance(theirs, str) and (OPEN_QUOTE not in theirs or one == OPEN_QUOTE)
                assert one == theirs or is_refused, content
            invalid += any(isinstance(one, str) for one in expected)
    assert invalid > files // 15 or not settings[1]


def of_tensorflow(session, records, placeholder, op):
    """Return the columns that decode_csv returns, or its error."""
    try:
        return [bits(column) for column in session.run(op, {placeholder: records})], None
    except tf.errors.InvalidArgumentError as error:
        return None, first_line(error)


def of_parser(parser, columns, records):
    values, error = parser.parse(records)
    if error is not None:
        return None, error
    return [bits(one if of.type == STRING else np.array(one, DTYPES[of.type].as_numpy_dtype))
            for one, of in zip(values, columns)], None


def is_shown(record, columns):
    """Python crashes if the text of an error of TensorFlow is not UTF-8, and cuts it at a NUL."""
    if all(one.type == STRING for one in columns):
        return True
    try:
        return "\0" not in record.decode("utf-8")
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("part", some(range(6), 0, 1))
def test_columns_are_those_of_decode_csv(part, seed):
    draw = texts.seeded(seed + part)
    invalid = 0
    for _ in range(6):
        columns = csv_fields.columns(draw)
        delimiter, use_quotes, na_value = draw.choice(",\t"), draw.random() < 0.8, draw.choice(["", "NA"])
        select_cols = sorted(draw.sample(range(8), len(columns))) if draw.random() < 0.4 else None
        parser = ColumnParser(columns, formats.text(delimiter, use_quotes), na_value.encode(), select_cols,
                              loses_signs=IS_TENSORFLOW_1)
        valid = []
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            records = tf.compat.v1.placeholder(tf.string, [None])
            op = tf.io.decode_csv(records, defaults_of(columns), delimiter, use_quotes, na_value=na_value,
                                  select_cols=select_cols)
            for _ in range(50):
                count = len(columns) if select_cols is None else draw.randint(select_cols[-1], 9)
                kinds = [STRING] * count
                for place, column in zip(select_cols or range(count), columns):
                    kinds[place:place + 1] = [column.type]
                fields = [csv_fields.field(draw, kind) for kind in kinds]
                record = delimiter.encode().join(texts.quoted(one, delimiter.encode(), draw) for one in fields)
                if draw.random() < 0.3:
                    record = texts.mutated(record, draw)
                if is_shown(record, columns):
                    expected = of_tensorflow(session, [record], records, op)
                    assert of_parser(parser, columns, [record]) == expected, record
                    invalid += expected[0] is None
                    valid += [record] if expected[0] is not None else []
            assert of_parser(parser, columns, valid) == of_tensorflow(session, valid, records, op)
    assert 30 < invalid < 280


@pytest.mark.parametrize("count", [4000, pytest.param(40000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_those_of_decode_csv(kind, count, seed):
    """Valid numbers are compared as one batch, and numbers that the parser refuses one by one."""
    draw = texts.seeded(seed)
    columns = [Column("x", kind)]
    parser = ColumnParser(columns, formats.text("|"), loses_signs=IS_TENSORFLOW_1)
    given = [draw.choice([csv_fields.real(draw).encode(), csv_fields.field(draw, kind)]) for _ in range(count)]
    given = [one for one in given if one and is_shown(one, columns) and b"\n" not in one]
    refused = [one for one in given if parser.parse([one]).error is not None]
    accepted = sorted(set(given) - set(refused))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        records = tf.compat.v1.placeholder(tf.string, [None])
        op = tf.io.decode_csv(records, defaults_of(columns), "|")
        ours, theirs = of_parser(parser, columns, accepted), of_tensorflow(session, accepted, records, op)
        assert theirs[1] is None
        assert [one for one in zip(accepted, ours[0][0], theirs[0][0]) if one[1] != one[2]] == []
        for text in refused[:100]:
            assert of_parser(parser, columns, [text]) == of_tensorflow(session, [text], records, op), text
    assert len(accepted) > 500 and len(refused) > 100
