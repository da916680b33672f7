"""Atomics on arrays of every kind that the workers use."""
import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from ascpipe.kernels import atomics
from tests.reference import atomics as atomics_reference
from tests.support.compiling import compiles

LIMIT = 2**32 - 1


def words(kind):
    if kind == "contiguous":
        return np.arange(8, dtype=np.uint32)
    return np.arange(16, dtype=np.uint32)[::2]


KINDS = pytest.mark.parametrize("kind", ["contiguous", "strided"])


@KINDS
def test_a_stored_word_is_loaded_and_its_neighbours_are_untouched(kind):
    array = words(kind)
    before = array.copy()
    atomics.exchange_u32(array, 3, LIMIT)
    assert atomics.load_acquire_u32(array, 3) == LIMIT
    before[3] = LIMIT
    assert array.tolist() == before.tolist()


@KINDS
def test_exchange_returns_what_was_there(kind):
    array = words(kind)
    old = int(array[2])
    assert atomics.exchange_u32(array, 2, 99) == old
    assert array[2] == 99


@KINDS
def test_compare_exchange_stores_only_what_was_expected(kind):
    array = words(kind)
    old = int(array[5])
    assert not atomics.compare_exchange_u32(array, 5, old + 1, 77)
    assert array[5] == old
    assert atomics.compare_exchange_u32(array, 5, old, 77)
    assert array[5] == 77


def test_add_wraps_at_32_bits():
    array = np.array([LIMIT], np.uint32)
    assert atomics.add_u32(array, 0, 2) == LIMIT
    assert array[0] == 1


def test_64_bit_words_keep_their_sign():
    array = np.zeros(3, np.int64)
    atomics.store_release_i64(array, 1, -5)
    assert atomics.load_acquire_i64(array, 1) == -5
    assert atomics.exchange_i64(array, 1, 2**62) == -5
    assert array.tolist() == [0, 2**62, 0]


@compiles
def test_compiled_code_can_use_them():
    @njit
    def take_turns(array, n):
        taken = 0
        for i in range(n):
            if atomics.compare_exchange_u32(array, i, np.uint32(0), np.uint32(7)):
                taken += 1
        return taken + atomics.load_acquire_u32(array, 0)

    array = np.array([0, 1, 0, 0], np.uint32)
    assert take_turns(array, 4) == 3 + 7
    assert array.tolist() == [7, 1, 7, 7]


@pytest.mark.parametrize("name, dtype", [
    ("load_acquire_u32", np.uint32), ("exchange_u32", np.uint32),
    ("add_u32", np.uint32), ("compare_exchange_u32", np.uint32), ("load_acquire_i64", np.int64),
    ("store_release_i64", np.int64), ("exchange_i64", np.int64)])
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.data())
def test_an_operation_leaves_and_returns_what_the_references_does(name, dtype, values, data):
    operation, reference = getattr(atomics, name), getattr(atomics_reference, name)
    operands = len(inspect.signature(reference).parameters) - 2
    arguments = [data.draw(st.integers(0, len(values) - 1))] + [data.draw(st.integers(0, 3)) for _ in range(operands)]
    array = np.array(values, dtype)
    assert operation(array, *arguments) == reference(values, *arguments)
    assert array.tolist() == values
