"""Function that creates private arrays that never need to grow. Pages of an array occupy memory only after they were
written.
"""
import ctypes
import mmap
from typing import Any

import numpy as np

# constants of Linux that CPython 3.7 does not define
_MAP_NORESERVE = 0x4000
_MADV_HUGEPAGE = 14
_HUGE_PAGE = 2 << 20

_libc = ctypes.CDLL(None)


def zeros(count: int, kind: Any) -> np.ndarray:
    """Return ``count`` zeros of numpy type ``kind``.

    Memory is allocated at the first write. After the first 2 MiB, it is allocated in units of 2 MiB.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    size = max(1, count * np.dtype(kind).itemsize)
    array = np.frombuffer(mmap.mmap(-1, size, flags=flags), kind, count)
    if size > _HUGE_PAGE:  # access is random, so request huge pages; errors do not matter
        # the first 2 MiB are excluded, because a small table would then immediately allocate all of them
        _libc.madvise(ctypes.c_void_p(array.ctypes.data + _HUGE_PAGE), ctypes.c_size_t(size - _HUGE_PAGE),
                      _MADV_HUGEPAGE)
    return array
