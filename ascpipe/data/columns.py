"""Columns of text records. The parser ``tfops/src/input/csv_parser.h`` returns the same values as ``tf.io.decode_csv``.
"""
import ctypes
from ctypes import c_char_p, c_void_p
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ascpipe.data import native
from ascpipe.data.formats import Format
from ascpipe.layout.calls import CsvColumnArguments

INT32 = "int32"  #: types of columns, named as in tf
INT64 = "int64"
FLOAT32 = "float32"
FLOAT64 = "float64"
STRING = "string"
HEX = "hex"  #: hexadecimal digits without prefix; the values are int64

Default = Union[int, float, bytes]

NUMBERS = {INT32: 0, INT64: 1, FLOAT32: 2, FLOAT64: 3, STRING: 4, HEX: 5}  #: type -> CsvType of C++
TYPES = {number: name for name, number in NUMBERS.items()}  #: CsvType of C++ -> type
_ARRAYS: Dict[str, Any] = {INT32: ctypes.c_int32, INT64: ctypes.c_int64, FLOAT32: ctypes.c_float,
                           FLOAT64: ctypes.c_double, STRING: native.Range, HEX: ctypes.c_int64}
_TEXT_BYTES = 65536  # maximum size of an error message, which contains the text of a field


class Column(NamedTuple):
    """A column of text records.

    Attributes:
        name: name of the column.
        type: ``INT32``, ``INT64``, ``FLOAT32``, ``FLOAT64``, ``STRING`` or ``HEX``.
        default: value of an empty field, or None if the field is required.
    """

    name: str
    type: str
    default: Optional[Default] = None


class Parsed(NamedTuple):
    """Result of ``ColumnParser.parse``.

    Attributes:
        values: a list per column. If a record is invalid, the lists end before this record.
        error: error of the first invalid record, or None. The message is the same as in ``tf.io.decode_csv``.
    """

    values: List[List[Any]]
    error: Optional[str]


class ColumnParser:
    """Parser that reads columns from text records."""

    def __init__(self, columns: Sequence[Column], record_format: Format, na_value: bytes = b"",
                 select_cols: Optional[Sequence[int]] = None, *, loses_signs: bool = False) -> None:
        """Create a parser.

        Args:
            columns: the columns to read.
            record_format: delimiter, and whether quotes are interpreted.
            na_value: text that marks a missing value. An empty field is also a missing value.
            select_cols: field number of each column, in strictly increasing order. By default, a record has exactly the
                fields of the columns.
            loses_signs: True to parse negative hexadecimal numbers with more than 24 bits (``FLOAT32``) or 53 bits
                (``FLOAT64``) without the sign, as TensorFlow 1.15 does.

        Raises:
            DataUnreadableError: the delimiter or the order of fields is not allowed.
        """
        self._types = [one.type for one in columns]
        self._handle = c_void_p()
        fields = range(len(columns)) if select_cols is None else select_cols
        arguments = (CsvColumnArguments * len(columns))(*map(_argument, columns, fields))
        native.call("asc_data_csv_new", record_format.argument(), na_value, int(select_cols is not None),
                    int(loses_signs), arguments, len(columns), ctypes.byref(self._handle))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            native.library().asc_data_csv_free(self._handle)

    def parse(self, records: Sequence[bytes]) -> Parsed:
        """Parse records up to the first invalid record, and return the values as Python lists."""
        arrays, count, error = self.parse_arrays(records)
        values = [[ctypes.string_at(one.data, one.size) for one in array[:count]] if of == STRING else array[:count]
                  for of, array in zip(self._types, arrays)]
        return Parsed(values, error)

    def parse_arrays(self, records: Sequence[bytes]) -> Tuple[List[Any], int, Optional[str]]:
        """Parse records up to the first invalid record, and return the values as C arrays.

        Returns:
            A C array per column, the number of valid records, and the error of ``Parsed``. The strings are valid only
            until the next call, and only while ``records`` exist.
        """
        ranges = (native.Range * len(records))(*[native.Range(ctypes.cast(c_char_p(one), c_void_p), len(one))
                                                 for one in records])
        arrays = [(_ARRAYS[of] * len(records))() for of in self._types]
        addresses = (c_void_p * len(arrays))(*map(ctypes.addressof, arrays))
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        count = native.library().asc_data_csv_parse(self._handle, ranges, len(records), addresses, text, len(text))
        return arrays, count, None if count == len(records) else text.value.decode("utf-8", "backslashreplace")


def _argument(column: Column, field: int) -> CsvColumnArguments:
    whole = column.default if column.type in (INT32, INT64, HEX) and column.default is not None else 0
    real = column.default if column.type in (FLOAT32, FLOAT64) and column.default is not None else 0.0
    text = column.default if isinstance(column.default, bytes) else None
    return CsvColumnArguments(field, NUMBERS[column.type], int(column.default is not None), whole, real, text,
                              len(text or b""))
