"""Arrays at an address: so that one compiled call can work on the memory of many tables.

Who gives an address away keeps the memory alive, and gives a new one away when it moves.
The readable version is ``tests/reference/memory.py``.
"""
import ctypes
from typing import Any, Tuple

import numpy as np
from llvmlite import ir
from numba import carray, config, njit, types
from numba.extending import intrinsic

if config.DISABLE_JIT:

    def _array_at(address: int, n: int, kind: Any) -> np.ndarray:
        buffer = (ctypes.c_char * (n * np.dtype(kind).itemsize)).from_address(int(address))
        return np.ndarray((n,), kind, buffer)

    def longs_at(address: int, n: int) -> np.ndarray:
        """int64[n] at an address."""
        return _array_at(address, n, np.int64)

    def ints_at(address: int, n: int) -> np.ndarray:
        """int32[n] at an address."""
        return _array_at(address, n, np.int32)

    def words_at(address: int, n: int) -> np.ndarray:
        """uint64[n] at an address."""
        return _array_at(address, n, np.uint64)

else:

    @intrinsic
    def _pointer(typing_context: Any, address: Any) -> Tuple[Any, Any]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

        return types.voidptr(types.int64), generate

    @njit("int64[::1](int64, int64)", cache=True, nogil=True)
    def longs_at(address: int, n: int) -> np.ndarray:
        """int64[n] at an address."""
        return carray(_pointer(address), (n,), np.int64)

    @njit("int32[::1](int64, int64)", cache=True, nogil=True)
    def ints_at(address: int, n: int) -> np.ndarray:
        """int32[n] at an address."""
        return carray(_pointer(address), (n,), np.int32)

    @njit("uint64[::1](int64, int64)", cache=True, nogil=True)
    def words_at(address: int, n: int) -> np.ndarray:
        """uint64[n] at an address."""
        return carray(_pointer(address), (n,), np.uint64)
