"""Python binding of the C functions that read training data (``tfops/src/input/c_api.cc`` and ``c_api_csv.cc``).

ctypes releases the GIL during a call. Only one thread at a time may use an object of the library.
"""
import ctypes
import functools
from ctypes import POINTER, c_char_p, c_int, c_int64, c_uint32, c_void_p
from typing import Any, Dict, Tuple, Type

from ascpipe.errors import (
    BatchPlanError,
    DamagedRecordsError,
    DataChangedError,
    DataError,
    DataUnreadableError,
    IndexNotWrittenError,
    IndexUnusableError,
)
from ascpipe.layout.calls import (
    BatchPlanArguments,
    CsvColumnArguments,
    ExampleColumnArguments,
    FeatureFacts,
    RecordFormat,
)
from ascpipe.tfops.load import files_library

_TEXT_BYTES = 8192  # maximum size of an error message, which may contain a path of 4096 bytes
_TEXT = (c_char_p, c_int)

#: Number, byte offset and size of a record, as in RecordPlace of C++.
Place = c_int64 * 3
#: Epoch and number of consumed records, as in EpochPosition of C++.
Position = c_int64 * 2

#: Size and modification time of a file, as in FileStamp of C++.
Stamp = c_int64 * 2

_NUMBERS = POINTER(c_int64)
_FORMAT = POINTER(RecordFormat)

class Range(ctypes.Structure):
    """Address and size of a byte string, with the layout of the C++ struct ByteRange."""

    _fields_ = (("data", c_void_p), ("size", ctypes.c_size_t))


_PLAN = POINTER(BatchPlanArguments)

#: arguments of the calls that return an error code, without the buffer for the error message
_CALLS: Dict[str, Tuple[Any, ...]] = {
    "asc_data_open": (c_char_p, _FORMAT, c_int, POINTER(c_void_p)),
    "asc_data_next": (c_void_p, Place, POINTER(c_void_p), _NUMBERS),
    "asc_data_skip": (c_void_p, Place, POINTER(c_int)),
    "asc_data_read_at": (c_void_p, Place, POINTER(c_void_p), _NUMBERS),
    "asc_data_check": (c_void_p, c_void_p, c_int64, _NUMBERS, _NUMBERS, _NUMBERS, POINTER(c_int)),
    "asc_data_index_begin": (c_char_p, _FORMAT, c_char_p, POINTER(c_void_p)),
    "asc_data_index_step": (c_void_p, c_int64, _NUMBERS, POINTER(c_int)),
    "asc_data_index_open": (c_char_p, Stamp, _FORMAT, POINTER(c_void_p)),
    "asc_data_index_find": (c_void_p, c_int64, c_int64, _NUMBERS),
    "asc_data_csv_new": (_FORMAT, c_char_p, c_int, c_int, POINTER(CsvColumnArguments), c_int64, POINTER(c_void_p)),
    "asc_data_text_check": (c_void_p, c_void_p, c_int64, _NUMBERS, _NUMBERS, POINTER(c_int)),
    "asc_data_permutation": (_PLAN, c_int64, c_int64, c_int64, _NUMBERS),
    "asc_data_plan_move": (_PLAN, c_int64, Position, POINTER(c_int)),
    "asc_data_plan_batch": (_PLAN, c_int64, Position, _NUMBERS, _NUMBERS),
}
#: result and arguments of the calls that cannot fail
_OTHERS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {
    "asc_data_close": (None, (c_void_p,)),
    "asc_data_compression": (c_int, (c_void_p,)),
    "asc_data_crc": (c_uint32, (c_char_p, c_int64, c_uint32)),
    "asc_data_index_end": (None, (c_void_p,)),
    "asc_data_index_close": (None, (c_void_p,)),
    "asc_data_index_records": (c_int64, (c_void_p,)),
    "asc_data_csv_free": (None, (c_void_p,)),
    "asc_data_csv_parse": (c_int64, (c_void_p, POINTER(Range), c_int64, POINTER(c_void_p), *_TEXT)),
    "asc_data_examples": (c_void_p, (POINTER(ExampleColumnArguments), c_int64, c_int64, _NUMBERS)),
    "asc_data_text_schema_new": (c_void_p, (_FORMAT,)),
    "asc_data_text_schema_free": (None, (c_void_p,)),
    "asc_data_text_schema_fields": (c_int64, (c_void_p, c_int64, _NUMBERS)),
    "asc_data_schema_new": (c_void_p, ()),
    "asc_data_schema_free": (None, (c_void_p,)),
    "asc_data_schema_records": (c_int64, (c_void_p,)),
    "asc_data_schema_features": (c_int64, (c_void_p, c_int64, POINTER(FeatureFacts))),
}
_CLASSES: Dict[str, Type[DataError]] = {kind.code: kind for kind in (
    DamagedRecordsError, DataChangedError, DataUnreadableError, IndexUnusableError, BatchPlanError,
    IndexNotWrittenError)}


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """Load the library, and declare the argument and result types of its functions.

    Raises:
        OpsMissingError, OpsMismatchError: see ``ascpipe.tfops.load.files_library``.
    """
    loaded = files_library()
    for name, arguments in _CALLS.items():
        getattr(loaded, name).argtypes = (*arguments, *_TEXT)
    for name, (result, arguments) in _OTHERS.items():
        getattr(loaded, name).restype = result
        getattr(loaded, name).argtypes = arguments
    return loaded


def crc32c(content: bytes, before: int = 0) -> int:
    """Return the CRC-32C of bytes. ``before`` is the CRC-32C of the preceding bytes."""
    return int(library().asc_data_crc(content, len(content), before))


def masked(crc: int) -> int:
    """Return the masked form of a CRC-32C, as in TFRecord files and checkpoints of TensorFlow."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def call(name: str, *arguments: Any) -> None:
    """Call a function of the C++ library.

    Raises:
        DataError: the function failed. The class depends on the code of the error.
    """
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    if getattr(library(), name)(*arguments, text, len(text)) != 0:
        code, _, message = text.value.decode("utf-8", "replace").partition(": ")
        raise _CLASSES.get(code, DataError)(message)
