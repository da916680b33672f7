"""A prefetch is a hint: it changes nothing and cannot fail."""
import numpy as np
import pytest
from numba import njit

from ascpipe.kernels.prefetch import prefetch
from tests.support import compiling

if not compiling.HERE:
    pytest.skip(compiling.REASON, allow_module_level=True)


@njit("void(int32[::1], int64[::1], uint64)")
def bring_near(narrow, wide, index):
    prefetch(narrow, index)
    prefetch(wide, index)


def test_prefetch_changes_nothing_even_far_outside_the_array():
    narrow, wide = np.arange(4, dtype=np.int32), np.arange(4)
    for index in (0, 3, 4, 2**40):
        bring_near(narrow, wide, np.uint64(index))
    assert narrow.tolist() == wide.tolist() == [0, 1, 2, 3]
