"""The row engine in Python: ``libascpipe_disk.so``, which does without TensorFlow.  docs/internals/row_files.md

The calls are in ``src/disk/c_api.cc``, the structs that they take in ``ascpipe/layout/calls.py``.  ctypes gives the
interpreter's lock back while a call runs.
"""
import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int64, c_void_p
from typing import Any, Dict, NamedTuple, Optional

import numpy as np

from ascpipe.errors import AscpipeError
from ascpipe.errors.base import shown
from ascpipe.layout import structs
from ascpipe.layout.calls import DiskBatch, DiskFigures, DiskFile
from ascpipe.layout.row_blocks import GROWTH_BYTES
from ascpipe.tfops.load import DISK_LIBRARY, OpsMismatchError, OpsMissingError

#: results of a row besides 0 and errnos; see ``src/disk/row_format.h``
NEVER_WRITTEN = -1
TORN = -2
FOREIGN = -3
STALE = -4

_TEXT_BYTES = 1024
_TEXT = (c_char_p, c_int)  # where an error's text goes to, and the room there

#: arguments behind the engine, of each call that returns an error code
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
    """The row engine has refused something; the text is its own."""


class RowFile(NamedTuple):
    """A row file without an engine.

    Attributes:
        fd: its descriptor.
        directory: in which it lies.
        file_system: FileSystemKind of ``tfops/src/disk/file_system.h``.
    """

    fd: int
    directory: str
    file_system: int


MEMORY = 1  #: of FileSystemKind: rows "on disk" take memory


def create_file(directory: str, row_bytes: int, *, buffered: bool = False) -> RowFile:
    """Make a row file without a name and without a block; the descriptor is the caller's.

    Raises:
        RowEngineError: the directory is not there, or may not be written to.
    """
    fd = c_int()
    kind = c_int()
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    if _load().asc_disk_create_file(_path(directory), row_bytes, int(buffered), ctypes.byref(fd), ctypes.byref(kind),
                                    text, len(text)) != 0:
        raise RowEngineError(text.value.decode("utf-8", "replace"))
    return RowFile(fd.value, directory, kind.value)


def _path(directory: str) -> bytes:
    """A path as the library takes it. Raises ``RowEngineError`` where it would take another one."""
    try:
        path = directory.encode()
    except UnicodeEncodeError as error:
        raise RowEngineError("{} has characters that are not UTF-8".format(shown(directory))) from error
    if b"\0" in path:
        raise RowEngineError("{} has a NUL byte".format(shown(directory)))
    return path


class Rows(NamedTuple):
    """Rows of a batch; contiguous arrays.

    Attributes:
        slots, keys, generations: int64[n], int64[n], uint32[n].
        addresses: uint64[n]; where each row comes from, or goes to.
        alone: uint8[n]; of rows to write, 1 = no other row of its block is in use; None = none is alone.
        requests: uint64[n]; addresses of the REQUEST that each ends; None = there are none.
        bell: address of the BELL that is rung when some of them have ended; 0 = there is none.
    """

    slots: np.ndarray
    keys: np.ndarray
    generations: np.ndarray
    addresses: np.ndarray
    alone: Optional[np.ndarray] = None
    requests: Optional[np.ndarray] = None
    bell: int = 0


class Batch:
    """A batch on its way.

    Args:
        engine: that carries it out.
        rows: of the batch; they and what their addresses name must not change until it is over.

    Attributes:
        results: int32[n]; once the batch is over, of each row: 0, an errno, or what is in its slot instead.
    """

    def __init__(self, engine: "RowEngine", rows: Rows) -> None:
        self.results = np.full(len(rows.slots), -100, np.int32)
        self._engine = engine
        self._rows = rows
        self.number = 0

    def arguments(self) -> DiskBatch:
        """The batch as the library takes it."""
        arrays = (*self._rows[:5], self.results, self._rows.requests)
        return DiskBatch(len(self.results), *[
            None if array is None else array.ctypes.data_as(kind)
            for array, (_, kind) in zip(arrays, DiskBatch._fields_[1:])], self._rows.bell or None)

    def wait(self, limit_s: float) -> bool:
        """Whether the batch was over within that time."""
        return self._engine.wait(self, limit_s)


class RowEngine:
    """Row files, and the threads that read and write them.  Python threads may share it.

    Args:
        threads: per disk.

    Raises:
        OpsMissingError: if the library has not been built.
        OpsMismatchError: if it was built for another layout.
    """

    def __init__(self, threads: int) -> None:
        self._library = _load()
        self._engine: Optional[int] = self._library.asc_disk_new(threads)
        self._batches: Dict[int, Batch] = {}  # the library has addresses of their arrays

    def create(self, directory: str, row_bytes: int, *, buffered: bool = False) -> int:
        """Make a row file without a name and without a block; returns its number."""
        file = c_int()
        self._call("asc_disk_create", _path(directory), row_bytes, int(buffered), ctypes.byref(file))
        return file.value

    def adopt(self, fd: int, directory: str, row_bytes: int) -> int:
        """Take the file of a dead process over; the descriptor stays the caller's.  Returns its number."""
        file = c_int()
        self._call("asc_disk_adopt", fd, _path(directory), row_bytes, ctypes.byref(file))
        return file.value

    def grow(self, file: int, blocks: int, step_bytes: int = GROWTH_BYTES) -> None:
        """Give a file at least that number of blocks.

        Raises:
            RowEngineError: there is no room; the text has need and room, and the file is as it was.
        """
        self._call("asc_disk_grow", file, blocks, step_bytes)

    def describe(self, file: int) -> DiskFile:
        """What is known of a file."""
        described = DiskFile()
        self._call("asc_disk_describe", file, ctypes.byref(described))
        return described

    def read(self, file: int, rows: Rows) -> Batch:
        """Begin to read rows."""
        return self._submit(file, rows, 0)

    def write(self, file: int, rows: Rows) -> Batch:
        """Begin to write rows into slots that are theirs."""
        return self._submit(file, rows, 1)

    def wait(self, batch: Batch, limit_s: float) -> bool:
        """Whether a batch was over within that time."""
        is_over = bool(self._library.asc_disk_wait(self._engine, batch.number, int(limit_s * 1000)))
        if is_over:
            self._batches.pop(batch.number, None)
        return is_over

    def cancel(self, batch: Batch) -> None:
        """End what no thread has begun with ECANCELED; the batch must still be waited for."""
        self._library.asc_disk_cancel(self._engine, batch.number)

    def figures(self, file: int) -> DiskFigures:
        """What the device of a file has done."""
        figures = DiskFigures()
        self._call("asc_disk_figures", file, ctypes.byref(figures))
        return figures

    def close(self, limit_s: float) -> None:
        """Cancel what is queued, wait for what the kernel has, end the threads, close the files.

        Raises:
            RowEngineError: a thread was in the kernel for longer; the text names the directory of its file.  The engine
                takes nothing more, and its files stay open until the process ends.
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
    if not DISK_LIBRARY.exists():
        raise OpsMissingError(str(DISK_LIBRARY))
    library = ctypes.CDLL(str(DISK_LIBRARY))
    library.asc_disk_layout_hash.restype = c_int64
    built = library.asc_disk_layout_hash()
    if built != structs.layout_hash():
        raise OpsMismatchError("shared-memory layout", built, structs.layout_hash())
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
