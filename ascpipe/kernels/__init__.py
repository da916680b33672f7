"""Compiled loops over arrays and structs, without system calls.

A kernel depends only on its arguments, and changes only arrays and structs that its docstring names. The caller owns
them; they may be in shared memory. Sizes are not checked. The plain-Python
version of each kernel has the same name in ``tests/reference/``. An explicit signature compiles at import, so import
only the module that you need.
"""
