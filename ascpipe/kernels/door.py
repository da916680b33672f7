"""Decorators that declare kernels. Python code may call only an ``entry`` kernel. An ``inner`` kernel is called only by
other kernels.

Both decorators have signatures as arguments. Signatures may contain the names of ``signatures`` and of numba. Machine
code is stored in the cache. An entry is loaded or compiled when its module is imported. An inner kernel is part of the
machine code of its callers. It is loaded only when a caller is compiled or when a test calls it, because loading it at
import would double the time. With NUMBA_DISABLE_JIT, the decorators return the function unchanged.

If there is a library of machine code (``library``), an entry is a function of the library, and numba is never imported.
"""
from typing import Any, Callable, TypeVar

from ascpipe.kernels import compiler, library

Function = TypeVar("Function", bound=Callable[..., Any])

_machine_code = library.opened()
if _machine_code is None:
    from ascpipe.kernels import compiled


def entry(*signatures: str) -> Callable[[Function], Function]:
    """Declare a kernel that Python code calls.

    Args:
        signatures: signatures of arguments and result, in numba's notation. Most kernels have one signature.
    """
    def declare(function: Function) -> Function:
        if _machine_code is not None:
            return _machine_code[library.name_of(function)]  # type: ignore[return-value]
        kernel = inner(*signatures)(function)
        if isinstance(kernel, compiled.Kernel):
            kernel.load()
        return kernel

    return declare


def inner(*signatures: str) -> Callable[[Function], Function]:
    """Declare a kernel that only other kernels call.

    Args:
        signatures: signatures of arguments and result, in numba's notation. Most kernels have one signature.
    """
    def declare(function: Function) -> Function:
        if _machine_code is not None:
            return _machine_code.get(library.name_of(function), function)  # type: ignore[return-value]
        if compiler.is_off():
            return function
        kernel = compiled.KERNELS[library.name_of(function)] = compiled.Kernel(function, signatures)
        return kernel

    return declare
