"""Python binding of the row engine ``libascpipe_files.so``, which does not need TensorFlow.

``src/disk/c_api.cc`` defines the functions, and ``ascpipe/layout/calls.py`` defines their structs. ctypes releases the
GIL during a call. ``docs/internals/row_files.md`` describes row files.
"""
import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int64, c_void_p
from typing import Any, Dict, NamedTuple, Optional

import numpy as np

from ascpipe.errors import AscpipeError
from ascpipe.errors.base import shown
from ascpipe.layout.calls import DiskBatch, DiskFigures, DiskFile
from ascpipe.layout.row_blocks import GROWTH_BYTES
from ascpipe.tfops.load import files_library

#: results of a row, in addition to 0 and errnos; see ``src/disk/row_format.h``
NEVER_WRITTEN = -1
TORN = -2
FOREIGN = -3
STALE = -4

_TEXT_BYTES = 1024
_TEXT = (c_char_p, c_int)  # buffer and size for an error message

#: arguments after the engine, for calls that return an error code
_CALLS = {
    "asc_disk_create": (c_char_p, c_int64, c_int, POINTER(c_int)),
    "asc_disk_adopt": (c_int, c_char_p, c_int64, POINTER(c_int)),
    "asc_disk_grow": (c_int, c_int64, c_int64),
    "asc_disk_describe": (c_int, POINTER(DiskFile)),
    "asc_disk_submit": (c_int, c_int, POINTER(DiskBatch), POINTER(c_int64)),
    "asc_disk_figures": (c_int, POINTER(DiskFigures)),
    "asc_disk_stop": (c_int64,),
}


class RowEngineError(AscpipeError):
    """The row engine rejected a request. The error message is the message of the row engine."""


class RowFile(NamedTuple):
    """Row file that no row engine uses yet.

    Attributes:
        fd: descriptor of the file.
        directory: directory of the file.
        file_system: a FileSystemKind of ``tfops/src/disk/file_system.h``.
    """

    fd: int
    directory: str
    file_system: int


MEMORY = 1  #: FileSystemKind of a file system in memory


def create_file(directory: str, row_bytes: int, *, buffered: bool = False) -> RowFile:
    """Create an unnamed empty row file. The caller owns the descriptor.

    Raises:
        RowEngineError: the directory does not exist or is not writable.
    """
    fd = c_int()
    kind = c_int()
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    if _load().asc_disk_create_file(_path(directory), row_bytes, int(buffered), ctypes.byref(fd), ctypes.byref(kind),
                                    text, len(text)) != 0:
        raise RowEngineError(text.value.decode("utf-8", "replace"))
    return RowFile(fd.value, directory, kind.value)


def _path(directory: str) -> bytes:
    """Return a path as bytes for calls of the C++ library. Raise ``RowEngineError`` if the path is not UTF-8 or has a
    NUL byte.
    """
    try:
        path = directory.encode()
    except UnicodeEncodeError as error:
        raise RowEngineError("{} has characters that are not UTF-8".format(shown(directory))) from error
    if b"\0" in path:
        raise RowEngineError("{} has a NUL byte".format(shown(directory)))
    return path


class Rows(NamedTuple):
    """Rows to read or write in one batch, described by contiguous arrays.

    Attributes:
        slots, keys, generations: int64[n], int64[n], uint32[n].
        addresses: uint64[n], source or destination of each row.
        alone: uint8[n]. For writes, 1 if no other row of the block is in use. None if no row is alone.
        requests: uint64[n], address of the REQUEST that each row completes. None if there are no requests.
        bell: address of the BELL that the engine rings when rows have completed, or 0.
    """

    slots: np.ndarray
    keys: np.ndarray
    generations: np.ndarray
    addresses: np.ndarray
    alone: Optional[np.ndarray] = None
    requests: Optional[np.ndarray] = None
    bell: int = 0


class Batch:
    """Batch of rows that the engine reads or writes.

    Args:
        engine: engine that executes the batch.
        rows: rows of the batch. The arrays and the memory at their addresses must not change until the batch
            has completed.

    Attributes:
        results: int32[n]. After completion, the result per row: 0, an errno, or a code such as ``NEVER_WRITTEN``.
    """

    def __init__(self, engine: "RowEngine", rows: Rows) -> None:
        self.results = np.full(len(rows.slots), -100, np.int32)
        self._engine = engine
        self._rows = rows
        self.number = 0

    def arguments(self) -> DiskBatch:
        """Return this batch as a struct for calls of the C++ library."""
        arrays = (*self._rows[:5], self.results, self._rows.requests)
        return DiskBatch(len(self.results), *[
            None if array is None else array.ctypes.data_as(kind)
            for array, (_, kind) in zip(arrays, DiskBatch._fields_[1:])], self._rows.bell or None)

    def wait(self, limit_s: float) -> bool:
        """Wait for the batch. Return whether the batch completed within ``limit_s`` seconds."""
        return self._engine.wait(self, limit_s)


class RowEngine:
    """Row engine: a set of open row files, and the threads that read and write these files. The class is thread-safe.

    Args:
        threads: number of threads per disk.

    Raises:
        OpsMissingError: the library has not been built.
        OpsMismatchError: the library was built for another layout.
    """

    def __init__(self, threads: int) -> None:
        self._library = _load()
        self._engine: Optional[int] = self._library.asc_disk_new(threads)
        self._batches: Dict[int, Batch] = {}  # keeps the arrays alive while the library uses their addresses

    def create(self, directory: str, row_bytes: int, *, buffered: bool = False) -> int:
        """Create an unnamed empty row file, and return the number of the file in the engine."""
        file = c_int()
        self._call("asc_disk_create", _path(directory), row_bytes, int(buffered), ctypes.byref(file))
        return file.value

    def adopt(self, fd: int, directory: str, row_bytes: int) -> int:
        """Add a row file that another process has created. Return the number of the file in the engine. The caller
        still owns ``fd``.
        """
        file = c_int()
        self._call("asc_disk_adopt", fd, _path(directory), row_bytes, ctypes.byref(file))
        return file.value

    def grow(self, file: int, blocks: int, step_bytes: int = GROWTH_BYTES) -> None:
        """Grow a file to at least ``blocks`` blocks.

        Raises:
            RowEngineError: there is too little space. The message has the needed and free bytes. The file is unchanged.
        """
        self._call("asc_disk_grow", file, blocks, step_bytes)

    def describe(self, file: int) -> DiskFile:
        """Return the properties of a row file."""
        described = DiskFile()
        self._call("asc_disk_describe", file, ctypes.byref(described))
        return described

    def read(self, file: int, rows: Rows) -> Batch:
        """Start to read rows from disk slots, and return the batch without waiting."""
        return self._submit(file, rows, 0)

    def write(self, file: int, rows: Rows) -> Batch:
        """Start to write rows to disk slots, and return the batch without waiting."""
        return self._submit(file, rows, 1)

    def wait(self, batch: Batch, limit_s: float) -> bool:
        """Wait for a batch. Return whether the batch completed within ``limit_s`` seconds."""
        is_over = bool(self._library.asc_disk_wait(self._engine, batch.number, int(limit_s * 1000)))
        if is_over:
            self._batches.pop(batch.number, None)
        return is_over

    def cancel(self, batch: Batch) -> None:
        """Cancel the rows of a batch that no thread has started to read or write. Their result is ECANCELED.

        The caller must still wait for the batch.
        """
        self._library.asc_disk_cancel(self._engine, batch.number)

    def figures(self, file: int) -> DiskFigures:
        """Return the statistics of the disk that contains a file."""
        figures = DiskFigures()
        self._call("asc_disk_figures", file, ctypes.byref(figures))
        return figures

    def close(self, limit_s: float) -> None:
        """Cancel queued operations, wait for operations in the kernel, end the threads, and close the files.

        Raises:
            RowEngineError: a thread was in the kernel for more than ``limit_s`` seconds. The message names
                the directory. The engine accepts no more calls, and its files stay open until the process exits.
        """
        if self._engine is None:
            return
        self._call("asc_disk_stop", int(limit_s * 1000))
        self._library.asc_disk_free(self._engine)
        self._engine = None

    def _submit(self, file: int, rows: Rows, writes: int) -> Batch:
        batch = Batch(self, rows)
        number = c_int64()
        self._call("asc_disk_submit", file, writes, ctypes.byref(batch.arguments()), ctypes.byref(number))
        batch.number = number.value
        self._batches[batch.number] = batch
        return batch

    def _call(self, name: str, *arguments: Any) -> None:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        if getattr(self._library, name)(self._engine, *arguments, text, len(text)) != 0:
            raise RowEngineError(text.value.decode("utf-8", "replace"))


def _load() -> ctypes.CDLL:
    library = files_library()
    library.asc_disk_new.argtypes = (c_int,)
    library.asc_disk_new.restype = c_void_p
    library.asc_disk_free.argtypes = (c_void_p,)
    library.asc_disk_free.restype = None
    library.asc_disk_wait.argtypes = (c_void_p, c_int64, c_int64)
    library.asc_disk_cancel.argtypes = (c_void_p, c_int64)
    library.asc_disk_cancel.restype = None
    library.asc_disk_create_file.argtypes = (c_char_p, c_int64, c_int, POINTER(c_int), POINTER(c_int), *_TEXT)
    for name, arguments in _CALLS.items():
        getattr(library, name).argtypes = (c_void_p, *arguments, *_TEXT)
    return library
