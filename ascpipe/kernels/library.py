"""Function that loads the shared library with the machine code of all kernels. ``linking`` builds the library.

Importing numba and reading its cache needs half a second. A process with a library does not need numba.
"""
import functools
import importlib.machinery
import importlib.util
import os
from typing import Any, Callable, Mapping, Optional

from ascpipe.layout.kernel_library import VARIABLE

MODULE = "ascpipe_kernels"


@functools.lru_cache(maxsize=None)
def opened() -> Optional[Mapping[str, Callable[..., Any]]]:
    """Return a dict from each kernel's name (``name_of``) to the compiled function, or None if there is no library.

    Raises:
        ImportError: the library cannot be loaded.
    """
    path = os.environ.get(VARIABLE, "")
    if not os.path.exists(path):
        return None
    loader = importlib.machinery.ExtensionFileLoader(MODULE, path)
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(MODULE, loader, origin=path))
    loader.exec_module(module)
    return vars(module)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a kernel in a library."""
    return "{}.{}".format(function.__module__, function.__qualname__)
