"""Measurements: `python -m bench --list`. docs/how-to/benchmarks.md describes how to run and read them."""
import os

from ascpipe.daemon import kernel_cache
from ascpipe.layout import kernel_library

# Set before a module of bench imports a kernel, so that the compiled kernels of workers are measured.
os.environ.setdefault("NUMBA_CACHE_DIR", kernel_cache.prepare(""))
os.environ.setdefault(kernel_library.VARIABLE, kernel_cache.library(os.environ["NUMBA_CACHE_DIR"], os.environ))
