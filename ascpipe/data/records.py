"""Records of a file. C++ code reads and checks the records (``tfops/src/input/record_file.h`` and ``text_file.h``)."""
import ctypes
import os
from ctypes import c_int, c_int64, c_void_p
from typing import Iterator, NamedTuple, Optional

from ascpipe.data import native
from ascpipe.data.formats import TFRECORD, Format
from ascpipe.data.schema import FileSchema

PLAIN = ""  #: compressions, named as in tf.data
GZIP = "GZIP"
ZLIB = "ZLIB"
_COMPRESSIONS = (PLAIN, GZIP, ZLIB)
_DETECT = -1


class Record(NamedTuple):
    """A record.

    Attributes:
        number: number of the record in its file, counted from 0.
        offset: byte offset of the record in the content of the file.
        data: copy of the data.
    """

    number: int
    offset: int
    data: bytes


class Place(NamedTuple):
    """Position of a record in a file.

    Attributes:
        number: number of the record in its file, counted from 0.
        offset: byte offset of the record in the content of the file.
        size: bytes of the record, including the 16 bytes of length and checksums of a TFRecord, or the line end of a
            text record.
    """

    number: int
    offset: int
    size: int


class Checked(NamedTuple):
    """Result of ``RecordFile.check``.

    Attributes:
        records: number of records that were checked.
        position: byte offset of the next record in the content of the file.
        is_end: whether the end of the file was reached.
    """

    records: int
    position: int
    is_end: bool


class RecordFile:
    """Reader of one file. Iteration over the reader yields all records in file order.

    Attributes:
        path: path of the file.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``.
        checked: number of records that ``check`` has checked, including calls that raised an error.
        not_example: number of the first of these records that is not a tf.train.Example, or None.
    """

    def __init__(self, path: str, compression: Optional[str] = None, record_format: Format = TFRECORD) -> None:
        """Open a file.

        Args:
            path: path of the file.
            compression: ``""``, ``"GZIP"``, ``"ZLIB"``, or None to detect it from the first bytes.
            record_format: the format of the file.

        Raises:
            DamagedRecordsError: the header of a text file has no end.
            DataUnreadableError: the file cannot be opened, or zlib is missing.
        """
        self.path = path
        self._file = c_void_p()
        number = _DETECT if compression is None else _COMPRESSIONS.index(compression)
        native.call("asc_data_open", os.fsencode(path), record_format.argument(), number, ctypes.byref(self._file))
        self.compression = _COMPRESSIONS[native.library().asc_data_compression(self._file)]
        self.checked = 0
        self.not_example: Optional[int] = None

    @property
    def handle(self) -> c_void_p:
        """Return the handle of the file for calls of the C++ library."""
        return self._file

    def __enter__(self) -> "RecordFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Further calls do nothing."""
        if self._file:
            native.library().asc_data_close(self._file)
            self._file = c_void_p()

    def __iter__(self) -> Iterator[Record]:
        record = self.read()
        while record is not None:
            yield record
            record = self.read()

    def read(self) -> Optional[Record]:
        """Return the next record, or None if the end of the file is reached.

        Raises:
            DamagedRecordsError: the record is damaged. The next call reads the same record.
            DataChangedError: the file has changed since it was opened.
            DataUnreadableError: the disk or the decompression failed.
        """
        place = native.Place()
        data = c_void_p()
        size = c_int64()
        native.call("asc_data_next", self._file, place, ctypes.byref(data), ctypes.byref(size))
        return _record(place, data, size) if data.value is not None else None

    def skip(self) -> Optional[Place]:
        """Skip the next record. Return the record's position, or None at the end of the file. The record's data may be
        damaged.

        Raises:
            DamagedRecordsError: the length of the record is damaged, so that the next record cannot be found.
            DataChangedError, DataUnreadableError: as in ``read``.
        """
        place = native.Place()
        is_end = c_int()
        native.call("asc_data_skip", self._file, place, ctypes.byref(is_end))
        return None if is_end.value else Place(*place)

    def read_at(self, place: Place) -> Record:
        """Return the record at a position that an index contains. The next call of ``read`` returns the following
        record.

        Raises:
            IndexUnusableError: the file is compressed, or has no such record at this position.
            DamagedRecordsError, DataChangedError, DataUnreadableError: as in ``read``.
        """
        where = native.Place(*place)
        data = c_void_p()
        size = c_int64()
        native.call("asc_data_read_at", self._file, where, ctypes.byref(data), ctypes.byref(size))
        return _record(where, data, size)

    def check(self, schema: FileSchema, step_bytes: int, limit: int = 2 ** 62) -> Checked:
        """Verify the checksums of the next records, and add the records to a schema.

        Args:
            schema: receives the features of the records.
            step_bytes: number of bytes after which the call returns.
            limit: maximum number of records.

        Raises:
            DamagedRecordsError, DataChangedError, DataUnreadableError: as in ``read``. Records before the error
                are in the schema.
        """
        left = c_int64(limit)
        position = c_int64()
        is_end = c_int()
        not_example = c_int64(-1 if self.not_example is None else self.not_example)
        try:
            native.call("asc_data_check", self._file, schema.handle, step_bytes, ctypes.byref(left),
                        ctypes.byref(not_example), ctypes.byref(position), ctypes.byref(is_end))
        finally:
            self.checked += limit - left.value
            self.not_example = None if not_example.value < 0 else not_example.value
        return Checked(limit - left.value, position.value, bool(is_end.value))


def _record(place: "ctypes.Array[c_int64]", data: c_void_p, size: c_int64) -> Record:
    return Record(place[0], place[1], ctypes.string_at(data, size.value))
