"""Directories of npy files with rows: ``keys.npy``, ``rows.npy``, and optionally slots, counts and timestamps."""
import functools
import io
import os
import tokenize
from typing import BinaryIO, Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import TableSpec
from ascpipe.checkpoint.tree import why
from ascpipe.rows.columns import COUNT, KEY, ROW, SLOT, TIMESTAMP, npy_name
from ascpipe.rows.sources import Part, Source, block_rows, check_columns, head_of, widths_of

_HEADER_BYTES = 4096  #: maximum size of the header that is read
_READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


#: errors that numpy raises for a damaged header
_NO_HEADER = (OSError, ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError,
              tokenize.TokenError)


class _Array(NamedTuple):
    """An open npy file. ``offset`` is the number of bytes before the first value."""

    path: str
    fd: int
    offset: int
    shape: Tuple[int, ...]
    dtype: np.dtype


class NpyRows(Source):
    """Rows of npy files in a directory.

    Args:
        path: path of the directory.
        spec: table into which the rows are imported.
    """

    def __init__(self, path: str, spec: TableSpec) -> None:
        super().__init__(path)
        self._block_rows = block_rows(spec)
        there = {name[:-len(".npy")] for name in os.listdir(path) if name.endswith(".npy")}
        self.columns = [KEY, ROW, *sorted(name for name in there if name.startswith(SLOT)),
                        *(name for name in (COUNT, TIMESTAMP) if npy_name(name)[:-len(".npy")] in there)]
        try:
            check_columns(self, spec)
            widths = widths_of(spec)
            self._arrays = {name: self._opened(name, widths[name]) for name in self.columns}
            for array in self._arrays.values():
                if array.shape[0] != self._arrays[KEY].shape[0]:
                    raise self.refused(array.path, "it has {} rows, but there are {} keys".format(
                        array.shape[0], self._arrays[KEY].shape[0]))
        except BaseException:
            self.close()
            raise

    def _opened(self, column: str, width: int) -> _Array:
        path = os.path.join(self.path, npy_name(column))
        if not os.path.lexists(path):
            raise self.refused(path, "the file is missing; the column {!r} is needed".format(column))
        fd = self.opened(path)
        try:
            file = io.BytesIO(os.pread(fd, _HEADER_BYTES, 0))
            shape, is_fortran, dtype = _header(file)
        except _NO_HEADER as error:
            raise self.damaged(path, "it is not an npy file: {}".format(error)) from error
        array = _Array(path, fd, file.tell(), shape, dtype)
        self._check(array, width, is_fortran)
        return array

    def _check(self, array: _Array, width: int, is_fortran: bool) -> None:
        if array.dtype.kind not in ("f" if width else "iu") or array.dtype == np.uint64:
            raise self.refused(array.path, "its values are {}, expected {}".format(
                array.dtype, "float32" if width else "int64"))
        wanted = (array.shape[:1] == array.shape and width <= 1) or (
            width > 0 and len(array.shape) == 2 and array.shape[1] == width)
        if not wanted:
            raise self.refused(array.path, "its shape is {}, but the table has [n{}]".format(
                list(array.shape), ", {}".format(width) if width else ""),
                array.shape[0] if len(array.shape) > 1 else 0)
        if is_fortran and width > 1:
            raise self.refused(array.path, "its values are in Fortran order. Save np.ascontiguousarray(values)")
        size = array.dtype.itemsize * array.shape[0] * max(width, 1)
        if os.fstat(array.fd).st_size != array.offset + size:
            raise self.damaged(array.path, "it has {} bytes, but its header needs {}".format(
                os.fstat(array.fd).st_size, array.offset + size))

    def parts(self, columns: Sequence[str]) -> Iterator[Part]:
        """Yield the rows. See ``Source.parts``."""
        arrays = {name: self._arrays[name] for name in [KEY, *columns]}
        rows = self._arrays[KEY].shape[0]
        for start in range(0, rows, self._block_rows):
            count = min(self._block_rows, rows - start)
            yield Part({name: self._read(array, start, count) for name, array in arrays.items()},
                       functools.partial(_place, self.path, start))

    def _read(self, array: _Array, start: int, count: int) -> np.ndarray:
        row_bytes = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
        values = np.empty((count, *array.shape[1:]), array.dtype)
        try:
            disk.read_into(array.fd, array.offset + start * row_bytes, values)
        except OSError as error:
            raise self.damaged(array.path, why(error)) from error
        if array.dtype.kind != "f":
            return values.astype(np.int64, copy=False)
        with np.errstate(over="ignore"):
            return values.reshape(count, -1 if count else 1).astype(np.float32, copy=False)


def dim_of_npy(path: str) -> Optional[int]:
    """Return the number of floats per row in a directory of npy files, or None if the number is unknown."""
    try:
        shape = _header(io.BytesIO(head_of(os.path.join(path, npy_name(ROW)), _HEADER_BYTES)))[0]
    except _NO_HEADER:
        return None  # ``NpyRows`` raises an error
    return shape[1] if len(shape) == 2 else 1


def _header(file: BinaryIO) -> Tuple[Tuple[int, ...], bool, np.dtype]:
    """Return shape, order and dtype of the array in an npy file. Raise one of the exceptions in ``_NO_HEADER`` if the
    header is damaged.
    """
    version = np.lib.format.read_magic(file)
    if version not in _READ_HEADER:
        raise ValueError("its format has version {}".format(version))
    shape, is_fortran, dtype = _READ_HEADER[version](file)
    return shape, is_fortran, dtype


def _place(path: str, first: int, row: int) -> str:
    return "row {} of {}".format(first + row, path)
