"""Marks tests of what numba compiles in the process of the test.

Where there is a library of compiled kernels, tests call kernels in that library, as workers do, and numba compiles
nothing. `make test-unit-bounds` has no library.
"""
import pytest

from ascpipe.kernels import compiler

HERE = compiler.types is not None  #: whether this process loads kernels by numba
REASON = "kernels are in a library; make test-unit-bounds runs this test"
compiles = pytest.mark.skipif(not HERE, reason=REASON)
