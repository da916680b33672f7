"""Functions that determine the names, the number and the types of the fields of text records."""
import ctypes
import json
from ctypes import c_int, c_int64, c_void_p
from typing import List, NamedTuple, Optional, Sequence

from ascpipe.data import native
from ascpipe.data.columns import FLOAT32, INT64, STRING, TYPES, Column, ColumnParser
from ascpipe.data.formats import Format
from ascpipe.data.records import Checked, RecordFile
from ascpipe.data.schema import quoted
from ascpipe.errors import DataError

_DEFAULTS = {INT64: "0", FLOAT32: "0.0"}  # type -> default in a feature spec. Other types are read as strings
_BOM = b"\xef\xbb\xbf"  # byte order mark of UTF-8, before the first name of some files


class Field(NamedTuple):
    """A field of some records.

    Attributes:
        name: name in the header, or the number of the field.
        type: narrowest type of all values: ``INT64``, ``HEX`` (8 digits), ``FLOAT32`` or ``STRING``; None if all values
            are missing.
        records: number of records with a value.
    """

    name: str
    type: Optional[str]
    records: int


class TextSchema:
    """Fields of the records of one text file. ``check`` collects the fields.

    Attributes:
        records: number of valid records.
    """

    def __init__(self, record_format: Format) -> None:
        self.records = 0
        self._handle = c_void_p(native.library().asc_data_text_schema_new(record_format.argument()))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            native.library().asc_data_text_schema_free(self._handle)

    def check(self, file: RecordFile, step_bytes: int, problems: List[DataError], limit: int = 2 ** 62) -> Checked:
        """Add the next records of a file, up to the first invalid record. Append the error of this record to
        ``problems``.

        Args:
            file: the file.
            step_bytes: number of bytes after which the call returns.
            problems: receives at most one error. The next call continues after the invalid record.
            limit: maximum number of valid records.
        """
        left = c_int64(limit)
        position = c_int64()
        is_end = c_int()
        try:
            native.call("asc_data_text_check", file.handle, self._handle, step_bytes, ctypes.byref(left),
                        ctypes.byref(position), ctypes.byref(is_end))
        except DataError as error:
            problems.append(error)
        self.records += limit - left.value
        return Checked(limit - left.value, position.value, bool(is_end.value))

    def fields(self, names: Sequence[str] = ()) -> List[Field]:
        """Return the fields. ``names`` are used as field names if there is one name for each field."""
        describe = native.library().asc_data_text_schema_fields
        count = describe(self._handle, 0, None)
        facts = (c_int64 * (2 * count))()
        describe(self._handle, count, facts)
        used = names if len(names) == count else [str(number) for number in range(count)]
        return [Field(name, TYPES[facts[2 * i + 1]] if facts[2 * i] else None, facts[2 * i])
                for i, name in enumerate(used)]


def split(record: bytes, count: int, record_format: Format) -> Optional[List[bytes]]:
    """Return the fields of a record, or None if the record is invalid or does not have ``count`` fields."""
    columns = [Column(str(number), STRING, b"") for number in range(count)]
    parsed = ColumnParser(columns, record_format).parse([record])
    return None if parsed.error is not None else [one[0] for one in parsed.values]


def header_of(path: str, record_format: Format) -> List[str]:
    """Return the field names in the first record of a file. The file may be compressed.

    The result is empty if the file is empty, or if the fields of the record are invalid.

    Raises:
        DataError: the record cannot be read.
    """
    with RecordFile(path, None, record_format._replace(header=False)) as file:
        first = file.read()
    data = b"" if first is None else first.data
    if data.startswith(_BOM):
        data = data[len(_BOM):]
    for count in range(data.count(record_format.delimiter) + 1, 0, -1):  # quoted names may contain delimiters
        found = split(data, count, record_format)
        if found is not None:
            return [one.decode("utf-8", "backslashreplace") for one in found]
    return []


def names_of(path: str, record_format: Format, count: int) -> List[str]:
    """Return the field names in the header of a file. Return [] if there is no header or it does not have ``count``
    names.

    Raises:
        DataError: the header cannot be read.
    """
    names = header_of(path, record_format) if record_format.header else []
    return names if len(names) == count else []


def wider(one: Optional[str], other: Optional[str]) -> Optional[str]:
    """Return the narrowest type that can represent the values of two types."""
    if one is None or other is None or one == other:
        return one or other
    return FLOAT32 if {one, other} == {INT64, FLOAT32} else STRING


def merged(files: Sequence[Sequence[Field]]) -> List[Field]:
    """Merge the fields of several files that have the same number of fields. The field names are taken from the first
    file.
    """
    together = list(files[0]) if files else []
    for fields in files[1:]:
        together = [Field(one.name, wider(one.type, other.type), one.records + other.records)
                    for one, other in zip(together, fields)]
    return together


def feature_lines(fields: Sequence[Field], records: int, *, header: bool) -> List[str]:
    """Return lines of Python code that define the argument ``features`` of ``asc.data.read`` for the fields. For files
    without a header, the lines also define ``columns``.

    A field gets a default if a record has no value. Fields with 8 hexadecimal digits are read as strings. Fields with
    equal names are omitted, because no feature can read them.

    Args:
        fields: the fields.
        records: number of records.
        header: whether the files have a header, which contains the names of the fields.
    """
    names = [one.name for one in fields]
    lines = [] if header else ["columns = {}  # the files have no header".format(json.dumps(names))]
    return [*lines, "features = {", *("    {}: tf.io.FixedLenFeature([], tf.{}{}),".format(
        quoted(one.name), one.type if one.type in _DEFAULTS else STRING,
        ", " + _DEFAULTS.get(one.type or STRING, '""') if one.records < records else "")
        for one in fields if names.count(one.name) == 1), "}"]


def looks_like_names(first: Sequence[bytes], others: Sequence[Sequence[bytes]]) -> bool:
    """Return whether the first record of a text file is probably a header.

    A header has no numbers and no empty or repeated fields. In the other records, at least one field has only numbers.

    Args:
        first: fields of the first record.
        others: fields of some other records. The records have the same number of fields.
    """
    if len(set(first)) < len(first) or not all(one.strip() and not _is_number(one) for one in first):
        return False
    return any(any(values) and all(_is_number(one) for one in values if one) for values in zip(*others))


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
