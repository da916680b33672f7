"""Readers and writers for the conversion of data files. For each format, there is one reader and one writer.

All readers return records as dicts: name of a feature -> ``FeatureValues``. All writers take such dicts. The
conversion of text to TFRecords uses chunks of records instead of dicts, which is many times faster.
"""
import ctypes
import itertools
import re
import struct
from typing import (
    Any,
    BinaryIO,
    Callable,
    ContextManager,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ascpipe.data import example, native
from ascpipe.data.columns import FLOAT32, INT64, NUMBERS, STRING, Column, ColumnParser
from ascpipe.data.example import FeatureValues
from ascpipe.data.files import DataFile
from ascpipe.data.formats import Format
from ascpipe.data.records import Record, RecordFile
from ascpipe.errors import DamagedRecordsError, DataError, DataFilesError
from ascpipe.layout.calls import ExampleColumnArguments

Values = Mapping[str, FeatureValues]
#: returns a context manager that shows the progress in a file, and yields a function that receives the byte offset
Watched = Callable[[DataFile], ContextManager[Optional[Callable[[int], None]]]]

_CHUNK = 512  # records that are parsed together
_OF_TEXT = re.compile(r" in record \d+")  # number of the record in the chunk, in error messages of the parser


class TextColumn(NamedTuple):
    """A field to read from text files.

    Attributes:
        number: number of the field in the records.
        column: name, type and default.
        is_optional: whether an empty field means that the record does not have the feature.
    """

    number: int
    column: Column
    is_optional: bool


def example_records(files: Sequence[DataFile], names: Optional[Sequence[str]], watched: Watched) -> Iterator[Values]:
    """Yield the records of TFRecord files.

    Args:
        files: the files.
        names: features to read. By default, all features are read.
        watched: function that shows the progress.

    Raises:
        DamagedRecordsError, DataChangedError, DataUnreadableError, NotAnExampleError: a record cannot be read.
    """
    for _, records in _chunks(files, None, watched):
        for record in records:
            values = example.parse(record.data)
            yield values if names is None else {name: values[name] for name in names if name in values}


class TextChunk(NamedTuple):
    """Values of some consecutive records of a text file.

    Attributes:
        columns: the columns.
        arrays: a C array per column. Strings are valid until the next chunk is read.
        has_values: for each column, a byte per record (0: the record lacks the feature), or None if not optional.
        size: number of records.
        memory: keeps the strings alive.
    """

    columns: Sequence[TextColumn]
    arrays: Sequence[Any]
    has_values: Sequence[Optional[bytes]]
    size: int
    memory: List[bytes]

    def records(self) -> Iterator[Values]:
        """Yield the records as dicts."""
        lists = [[ctypes.string_at(one.data, one.size) for one in array] if of.column.type == STRING else array[:]
                 for of, array in zip(self.columns, self.arrays)]
        kinds = [of.column.type if of.column.type in (FLOAT32, STRING) else INT64 for of in self.columns]
        for row in range(self.size):
            yield {of.column.name: FeatureValues(kind, [values[row]])
                   for of, kind, values, has in zip(self.columns, kinds, lists, self.has_values)
                   if has is None or has[row]}


def text_chunks(files: Sequence[DataFile], record_format: Format, columns: Sequence[TextColumn],
                watched: Watched) -> Iterator[TextChunk]:
    """Yield the records of text files, with features in the order of ``columns``.

    Args:
        files: the files.
        record_format: format of the files.
        columns: the fields to read.
        watched: function that shows the progress.

    Raises:
        DamagedRecordsError: a record is invalid, or a field does not have the type of its column.
        DataChangedError, DataUnreadableError: a file cannot be read.
    """
    by_field = sorted(columns, key=lambda one: one.number)
    places = [by_field.index(one) for one in columns]
    parser = ColumnParser([one.column for one in by_field], record_format,
                          select_cols=[one.number for one in by_field])
    optional = [one for one in by_field if one.is_optional]
    texts = ColumnParser([Column(one.column.name, STRING, b"") for one in optional], record_format,
                         select_cols=[one.number for one in optional]) if optional else None
    for file, records in _chunks(files, record_format, watched):
        data = [record.data for record in records]
        arrays, count, error = parser.parse_arrays(data)
        if error is not None:
            raise DamagedRecordsError("{}: record {} at byte {} is invalid: {}. Correct the record, or read the field "
                                      "as another type (--columns NAME:TYPE)".format(
                                          file.path, records[count].number, records[count].offset,
                                          _OF_TEXT.sub("", error)))
        given = [] if texts is None else texts.parse_arrays(data)[0]
        has_values = {one: bytes(text.size > 0 for text in array) for one, array in zip(optional, given)}
        yield TextChunk(columns, [arrays[place] for place in places], [has_values.get(one) for one in columns], count,
                        data)


def _chunks(files: Sequence[DataFile], record_format: Optional[Format],
            watched: Watched) -> Iterator[Tuple[DataFile, List[Record]]]:
    """Yield the records of a file in chunks, and report the progress."""
    for file in files:
        of = () if record_format is None else (record_format,)
        with watched(file) as progress, RecordFile(file.path, file.compression, *of) as opened:
            records = list(itertools.islice(opened, _CHUNK))
            while records:
                yield file, records
                if progress is not None:
                    progress(records[-1].offset + len(records[-1].data))
                records = list(itertools.islice(opened, _CHUNK))


class ExampleWriter:
    """Writer of TFRecord files."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write_chunk(self, chunk: TextChunk) -> None:
        """Append records of text."""
        arguments = (ExampleColumnArguments * len(chunk.columns))()
        for at, of, array, has in zip(arguments, chunk.columns, chunk.arrays, chunk.has_values):
            at.name = of.column.name.encode("utf-8", "surrogateescape")
            at.name_bytes = len(at.name)
            at.type = NUMBERS[of.column.type]
            at.values = ctypes.addressof(array)
            if has is not None:
                at.has_value = (ctypes.c_uint8 * len(has)).from_buffer_copy(has)
        size = ctypes.c_int64()
        data = native.library().asc_data_examples(arguments, len(arguments), chunk.size, ctypes.byref(size))
        self._file.write(ctypes.string_at(data, size.value))

    def write(self, values: Values) -> None:
        """Append a record."""
        data = example.serialized(values)
        length = struct.pack("<Q", len(data))
        self._file.write(b"".join((length, _checksum(length), data, _checksum(data))))


class TextWriter:
    """Writer of text files.

    Args:
        file: receives the text.
        names: features, in the order of the fields.
        delimiter: delimiter of fields.
        header: whether the first record has the names.
    """

    def __init__(self, file: BinaryIO, names: Sequence[str], delimiter: bytes, header: bool) -> None:
        self._file = file
        self._names = names
        self._delimiter = delimiter
        self._quoted = re.compile(b"[\"\r\n" + re.escape(delimiter) + b"]")
        if header:
            self._write([name.encode("utf-8", "surrogateescape") for name in names])

    def write(self, values: Values) -> None:
        """Append a record. A feature without a value is written as an empty field.

        Raises:
            DataError: a feature has more than one value.
        """
        self._write([_text(name, values[name]) if name in values else b"" for name in self._names])

    def _write(self, fields: List[bytes]) -> None:
        line = self._delimiter.join(
            b'"' + field.replace(b'"', b'""') + b'"' if self._quoted.search(field) else field for field in fields)
        self._file.write((line or b'""') + b"\n")  # an empty line would be a record without a field


def check_single(most: Dict[str, int]) -> None:
    """Check that no feature has several values in a record, because a field of a text file has only one value.

    Args:
        most: name -> maximum number of values in a record.

    Raises:
        DataFilesError: a feature has several values.
    """
    several = sorted(name for name, count in most.items() if count > 1)
    if several:
        raise DataFilesError("Feature {!r} has up to {} values in a record, and a field of CSV and TSV files has one "
                             "value. Nothing was written. Name the features to convert with --columns, or convert to "
                             "TFRecord".format(several[0], most[several[0]]))


def _text(name: str, one: FeatureValues) -> bytes:
    """Return a feature as the text of a CSV field. ``tf.io.decode_csv`` converts this text to the value of the feature.
    """
    if len(one.values) > 1:
        raise DataError("Feature {!r} has {} values in a record, and a field of text has one".format(
            name, len(one.values)))
    for value in one.values:
        if isinstance(value, bytes):
            return value
        return str(np.float32(value) if one.type == FLOAT32 else value).encode()
    return b""


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", native.masked(native.crc32c(data)))
