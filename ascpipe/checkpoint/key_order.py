"""Functions that sort keys and reorder rows. The functions call ``libascpipe_files.so``, which does not need
TensorFlow.

The functions of the library are in ``tfops/src/rows``. ctypes releases the GIL during a call.
"""
import ctypes
import functools
from ctypes import c_int64, c_void_p
from typing import Optional, Tuple

import numpy as np

from ascpipe.tfops.load import files_library

_NO_MEMORY = "failed to map segment"  #: part of the loader's message if there is no memory for the library
_ARGUMENTS = {
    "asc_rows_sort_keys": (c_void_p, c_int64, c_void_p),
    "asc_rows_order_keys": (c_void_p, c_int64, c_void_p, c_void_p),
    "asc_rows_find_ranges_16": (c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_void_p),
    "asc_rows_find_ranges_32": (c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_void_p),
    "asc_rows_group_16": (c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p),
    "asc_rows_group_32": (c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p),
    "asc_rows_gather": (c_void_p, c_int64, c_void_p, c_int64, c_void_p),
}


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    try:
        loaded = files_library()
    except OSError as error:
        if _NO_MEMORY not in str(error):
            raise
        raise MemoryError(str(error)) from error
    for name, arguments in _ARGUMENTS.items():
        getattr(loaded, name).argtypes = arguments
        getattr(loaded, name).restype = None
    loaded.asc_rows_placed_bytes.restype = c_int64
    return loaded


def sort_keys(keys: np.ndarray) -> None:
    """Sort keys in place. The function allocates memory for a copy of the keys.

    Args:
        keys: int64[n], contiguous.

    Raises:
        OpsMissingError, OpsMismatchError: see ``ascpipe.tfops.load.files_library``.
    """
    scratch = np.empty(len(keys), np.int64)
    _library().asc_rows_sort_keys(_start(keys, np.int64), len(keys), _start(scratch, np.int64))


def scratch_for(count: int) -> np.ndarray:
    """Return scratch memory for a call of ``order_of`` with up to ``count`` keys."""
    return np.empty(2 * count * _library().asc_rows_placed_bytes(), np.uint8)


def order_of(keys: np.ndarray, scratch: Optional[np.ndarray] = None) -> np.ndarray:
    """Return the indices that sort the keys in ascending order, as uint32[n]. Equal keys keep their order.

    Args:
        keys: int64[n], contiguous; n is below 2^32.
        scratch: memory that ``scratch_for`` returned for at least n keys.
    """
    order = np.empty(len(keys), np.uint32)
    if scratch is None:
        scratch = scratch_for(len(keys))
    _library().asc_rows_order_keys(_start(keys, np.int64), len(keys), _start(scratch, np.uint8),
                                   _start(order, np.uint32))
    return order


def ranges_of(keys: np.ndarray, bounds: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Divide keys into ranges. Return the range number of each key, and the number of keys in each range.

    The range of a key is the number of bounds that are not larger than the key.

    Args:
        keys: int64[n], contiguous.
        bounds: int64[m], sorted.

    Returns:
        The ranges as uint16[n], or as uint32[n] if there are many bounds, and the numbers of keys as int64[m + 1].
    """
    kind = _kind(len(bounds) + 1)
    ranges = np.empty(len(keys), kind)
    counts = np.zeros(len(bounds) + 1, np.int64)
    find = _library().asc_rows_find_ranges_16 if kind == np.uint16 else _library().asc_rows_find_ranges_32
    find(_start(keys, np.int64), len(keys), _start(bounds, np.int64), len(bounds), _start(ranges, kind),
         _start(counts, np.int64))
    return ranges, counts


def grouped(ranges: np.ndarray, count: int) -> Tuple[np.ndarray, np.ndarray]:
    """Group rows by range. Return the row indices sorted by range, and the number of rows in each range.

    Args:
        ranges: uint16[n] or uint32[n], contiguous, range of each row, as returned by ``ranges_of``.
        count: number of ranges.

    Returns:
        uint32[n] and int64[count]. Rows of the same range keep their order.
    """
    kind = _kind(count)
    order = np.empty(len(ranges), np.uint32)
    counts = np.empty(count, np.int64)
    scratch = np.empty(count, np.int64)
    group = _library().asc_rows_group_16 if kind == np.uint16 else _library().asc_rows_group_32
    group(_start(ranges, kind), len(ranges), count, _start(counts, np.int64), _start(scratch, np.int64),
          _start(order, np.uint32))
    return order, counts


def gathered(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the rows of ``values`` with the indices in ``order``.

    Args:
        values: [n] or [n, width], contiguous, of any type.
        order: uint32[m], indices below n.
    """
    found = np.empty((len(order), *values.shape[1:]), values.dtype)
    row_bytes = values.dtype.itemsize * int(np.prod(values.shape[1:], dtype=np.int64))
    _library().asc_rows_gather(_start(values, values.dtype), row_bytes, _start(order, np.uint32), len(order),
                               _start(found, values.dtype))
    return found


def _kind(ranges: int) -> type:
    return np.uint16 if ranges <= 1 << 16 else np.uint32


def _start(values: np.ndarray, kind: type) -> int:
    """Return the address of an array. Raise ``ValueError`` if the array is not contiguous or its type is not ``kind``.
    """
    if values.dtype != kind or not values.flags.c_contiguous:
        raise ValueError("an array of {} is needed, and its values must be contiguous".format(np.dtype(kind)))
    return int(values.ctypes.data)
