"""Arrays at an address are the memory that lies there."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import memory
from tests.reference import memory as reference


@settings(deadline=None)
@given(st.lists(st.integers(-2**63, 2**63 - 1), min_size=1, max_size=20), st.data())
def test_an_array_at_an_address_has_what_lies_there_and_is_written_in_place(values, data):
    array = np.array(values, np.int64)
    address, n = array.ctypes.data, data.draw(st.integers(0, len(values)))
    assert memory.longs_at(address, n).tolist() == reference.longs_at(address, n)
    assert memory.words_at(address, n).tolist() == reference.words_at(address, n)
    assert memory.ints_at(address, 2 * n).tolist() == reference.ints_at(address, 2 * n)
    memory.ints_at(address, 2)[1] = 7
    assert array[0] >> 32 == 7
