"""How a kernel is declared: ``entry`` if Python code calls it, ``inner`` if only other kernels do.

Both take signatures, in which the names of ``signatures`` stand beside numba's own, and keep machine code in the cache.
An entry is loaded, or compiled, when its module is imported.  An inner kernel is part of the machine code of its
callers: to load its own would take as long again and serve nothing, so it is loaded when a caller is compiled, or when
a test calls it.  With NUMBA_DISABLE_JIT both leave the function as it is.

Where there is a library of machine code (``library``), an entry is its function there, and numba is never imported.
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
        signatures: of its arguments and result, as numba writes them; in most cases one.
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
        signatures: of its arguments and result, as numba writes them; in most cases one.
    """
    def declare(function: Function) -> Function:
        if _machine_code is not None:
            return _machine_code.get(library.name_of(function), function)  # type: ignore[return-value]
        if compiler.is_off():
            return function
        kernel = compiled.KERNELS[library.name_of(function)] = compiled.Kernel(function, signatures)
        return kernel

    return declare
