"""Function with which C++ threads decode row groups of Parquet files.

Data is passed through the Arrow C data interface (``tfops/src/input/row_group_loader.h``). pyarrow releases the
interpreter lock while it decodes.
"""
import atexit
import ctypes
import os
from typing import Any

from ascpipe.data import parquet
from ascpipe.errors import DataError, DataUnreadableError
from ascpipe.layout.calls import RowGroupArguments

_Function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(RowGroupArguments))


def register(library: ctypes.CDLL) -> None:
    """Register the decoding function in the native library. When the interpreter exits, the decoding function is
    unregistered.
    """
    library.asc_read_decode_with(_decode, None, 0)
    # C++ threads must not call Python functions after the interpreter has ended. A forked child has no C++ threads.
    atexit.register(_unregister, library, os.getpid())


def _unregister(library: ctypes.CDLL, process: int) -> None:
    if os.getpid() == process:
        library.asc_read_decode_with(None, None, 0)


@_Function
def _decode(pointer: Any) -> int:
    """Decode a row group, and export the decoded columns. Return 0, or the number of an error code."""
    arguments = pointer.contents
    path = os.fsdecode(arguments.path)
    group = parquet.RowGroup(path, arguments.bytes, arguments.modified_ns, arguments.group)
    columns = [name.decode() for name in arguments.columns[:arguments.columns_count]]
    try:
        batch = parquet.read(group, columns, bool(arguments.uses_threads))
        parquet.export(batch, arguments.array, arguments.schema)
        return 0
    except DataError as error:
        return _failed(arguments, error)
    except Exception as error:  # noqa: BLE001  (any error, because ctypes would only print it)
        return _failed(arguments, DataUnreadableError("Row group {} of {} cannot be read: {}: {}. No batch has its "
                                                      "rows".format(group.number, path, type(error).__name__, error)))


def _failed(arguments: Any, error: DataError) -> int:
    text = error.sentence().encode("utf-8", "replace")[:arguments.text_bytes - 1]
    ctypes.memmove(arguments.text, text, len(text))
    return int(error.code[1:])
