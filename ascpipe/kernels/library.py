"""The shared library that has the machine code of all entries; ``linking`` makes it.

numba takes half a second to be imported and to read its cache. A process that is told of a library needs no numba.
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
    """Its functions by ``name_of``; None where there is none, also when it was removed since.

    Raises:
        ImportError: it cannot be loaded.
    """
    path = os.environ.get(VARIABLE, "")
    if not os.path.exists(path):
        return None
    loader = importlib.machinery.ExtensionFileLoader(MODULE, path)
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(MODULE, loader, origin=path))
    loader.exec_module(module)
    return vars(module)


def name_of(function: Callable[..., Any]) -> str:
    """Of an entry, in a library."""
    return "{}.{}".format(function.__module__, function.__qualname__)
