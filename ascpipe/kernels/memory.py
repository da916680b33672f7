"""Makes arrays over an address, so that one compiled call works on the memory of many tables.

The owner of an address keeps the memory alive, and gives a new address when the memory moves.
"""
import ctypes
from typing import Any, Tuple

import numpy as np

from ascpipe.kernels.compiler import carray, intrinsic, ir, is_off, register_jitable, types

if is_off():

    def array_at(address: int, n: int, kind: Any) -> np.ndarray:
        """n items of a numpy type, constant at compile time, at an address."""
        buffer = (ctypes.c_char * (int(n) * np.dtype(kind).itemsize)).from_address(int(address))
        return np.ndarray((int(n),), kind, buffer)

else:

    @intrinsic
    def _pointer(typing_context: Any, address: Any) -> Tuple[Any, Any]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

        return types.voidptr(types.int64), generate

    @register_jitable
    def array_at(address: int, n: int, kind: Any) -> np.ndarray:
        """n items of a numpy type, constant at compile time, at an address."""
        return carray(_pointer(address), (n,), kind)
