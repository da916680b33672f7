"""Measurements: `python -m bench --list`. How to run and read them: docs/how-to/benchmarks.md."""
import os

from ascpipe.daemon import kernel_cache
from ascpipe.layout import kernel_library

# Before a module of bench imports a kernel: measure the compiled kernels that workers load.
os.environ.setdefault("NUMBA_CACHE_DIR", kernel_cache.prepare(""))
os.environ.setdefault(kernel_library.VARIABLE, kernel_cache.library(os.environ["NUMBA_CACHE_DIR"], os.environ))
