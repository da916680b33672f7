"""Compiled loops over arrays, without processes, shared memory or I/O.

A kernel is a pure function of arrays and counts. The caller owns every array; sizes are not checked. The plain-Python
version of each kernel has the same name in ``tests/reference/``. An explicit signature compiles at import, so import
only the module that you need.
"""
