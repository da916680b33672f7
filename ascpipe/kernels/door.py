"""Declares kernels: ``entry`` if Python code calls a kernel, ``inner`` if only other kernels do.

Both take signatures, which may use the names of ``signatures`` beside numba's. Machine code is kept in the cache. An
entry is loaded or compiled when its module is imported. An inner kernel is part of the machine code of its callers. It
is loaded only when a caller is compiled or when a test calls it, because loading it at import would double the time.
With NUMBA_DISABLE_JIT both return the function unchanged.

If there is a library of machine code (``library``), an entry is its function in the library, and numba is never
imported.
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
        signatures: of its arguments and result, in numba's notation; in most cases one.
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
        signatures: of its arguments and result, in numba's notation; in most cases one.
    """
    def declare(function: Function) -> Function:
        if _machine_code is not None:
            return _machine_code.get(library.name_of(function), function)  # type: ignore[return-value]
        if compiler.is_off():
            return function
        kernel = compiled.KERNELS[library.name_of(function)] = compiled.Kernel(function, signatures)
        return kernel

    return declare
