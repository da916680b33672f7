"""Private arrays for as many items as there may ever be, of which only those in use take memory."""
import ctypes
import mmap
from typing import Any

import numpy as np

# Linux; CPython 3.7 has no names for them
_MAP_NORESERVE = 0x4000
_MADV_HUGEPAGE = 14
_HUGE_PAGE = 2 << 20

_libc = ctypes.CDLL(None)


def zeros(count: int, kind: Any) -> np.ndarray:
    """An array of ``count`` zeros of numpy type ``kind``; memory is taken as it is written to, 2 MiB at a time
    behind the first 2 MiB."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    size = max(1, count * np.dtype(kind).itemsize)
    array = np.frombuffer(mmap.mmap(-1, size, flags=flags), kind, count)
    if size > _HUGE_PAGE:  # items are met in no order: a hint, so what it answers does not matter
        # not the first 2 MiB: they are all that a small table uses, and it would take them at once
        _libc.madvise(ctypes.c_void_p(array.ctypes.data + _HUGE_PAGE), ctypes.c_size_t(size - _HUGE_PAGE),
                      _MADV_HUGEPAGE)
    return array
