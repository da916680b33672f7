"""An array at an address is the memory that lies there."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from ascpipe.kernels.memory import array_at
from ascpipe.kernels.records import CHANGE
from tests.reference import memory as reference
from tests.support.compiling import compiles

pytestmark = compiles


@njit
def longs_at(address, n):
    return array_at(address, n, np.int64)


@njit
def ints_at(address, n):
    return array_at(address, n, np.int32)


@njit
def words_at(address, n):
    return array_at(address, n, np.uint64)


@njit
def add_to_slots(address, n, number):
    for change in array_at(address, n, CHANGE):
        change["slot"] += number


@settings(deadline=None)
@given(st.lists(st.integers(-2**63, 2**63 - 1), min_size=1, max_size=20), st.data())
def test_an_array_at_an_address_has_what_lies_there_and_is_written_in_place(values, data):
    array = np.array(values, np.int64)
    address, n = array.ctypes.data, data.draw(st.integers(0, len(values)))
    assert longs_at(address, n).tolist() == reference.array_at(address, n, "int64")
    assert words_at(address, n).tolist() == reference.array_at(address, n, "uint64")
    assert ints_at(address, 2 * n).tolist() == reference.array_at(address, 2 * n, "int32")
    ints_at(address, 2)[1] = 7
    assert array[0] >> 32 == 7


def test_records_at_an_address_are_written_in_place():
    changes = np.zeros(4, CHANGE)
    changes["slot"], changes["home"] = [1, 2, 3, 4], 9
    add_to_slots(changes.ctypes.data, 3, 10)
    assert (changes["slot"].tolist(), changes["home"].tolist()) == ([11, 12, 13, 4], [9] * 4)
