"""Names that kernels import from numba and LLVM.

Neither package is imported if machine code comes from a library. Kernels are then Python functions that are not called;
see ``door`` for entries.
"""
from typing import Any, Callable, TypeVar

from ascpipe.kernels import library

Function = TypeVar("Function", bound=Callable[..., Any])

if library.opened() is None:
    from llvmlite import ir
    from numba import carray, config, from_dtype, types
    from numba.core import cgutils
    from numba.extending import intrinsic, register_jitable
    from numba.np.arrayobj import make_array
else:
    carray = cgutils = config = from_dtype = ir = make_array = types = None

    def intrinsic(function: Function) -> Function:
        """Return the function unchanged."""
        return function

    def register_jitable(function: Function) -> Function:
        """Return the function unchanged."""
        return function


def is_off() -> bool:
    """Return True if kernels run as Python code."""
    return config is not None and bool(config.DISABLE_JIT)
