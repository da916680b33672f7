"""Functions that make arrays from addresses, so that one compiled call can use the memory of many tables.

The owner of the memory keeps the memory alive, and provides a new address when the memory moves.
"""
import ctypes
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

import numpy as np

from ascpipe.kernels.compiler import carray, intrinsic, ir, is_off, register_jitable, types

if is_off():

    def array_at(address: int, n: int, kind: Any) -> np.ndarray:
        """Return an array of n items at an address. ``kind`` must be a numpy type that is constant at compile time."""
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
        """Return an array of n items at an address. ``kind`` must be a numpy type that is constant at compile time."""
        return carray(_pointer(address), (n,), kind)


class Lent(NamedTuple):
    """Array whose address is in the field ``<name>_at`` of a struct. If there is no array, the field is 0.

    Attributes:
        name: name of the array.
        kind: numpy type of an item.
        length: field of the struct with the number of items. It is "" for a single struct, and "?" if the
            array has no ``accessor``.
    """

    name: str
    kind: Any
    length: str = "?"


def addresses(arrays: Sequence[Lent]) -> List[Tuple[str, str]]:
    """Return the struct fields, as (name, type), for the addresses of ``arrays``."""
    return [(array.name + "_at", "<i8") for array in arrays]


def accessor(arrays: Sequence[Lent], name: str) -> Callable[[Any], Any]:
    """Return an inlined function that takes a struct with the addresses, and returns the array or struct ``name``."""
    declared = {array.name: array for array in arrays}[name]
    field = name + "_at"
    kind = declared.kind
    length = declared.length

    def struct(owner: Any) -> Any:
        return array_at(owner[field], 1, kind)[0]

    def items(owner: Any) -> Any:
        return array_at(owner[field], owner[length], kind)

    made: Callable[[Any], Any] = register_jitable(items if length else struct)
    return made
