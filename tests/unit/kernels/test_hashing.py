"""Hash and owner of a key."""
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.kernels import bits, hashing
from tests.reference import bits as reference_bits
from tests.reference import hashing as reference

INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)
EXTREMES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]


@settings(deadline=None)
@given(INT64)
def test_hash_equals_the_reference(key):
    assert int(hashing.hash_key(np.int64(key))) == reference.hash_key(key)


@pytest.mark.parametrize("key", EXTREMES)
def test_hash_of_the_extreme_keys_equals_the_reference(key):
    assert int(hashing.hash_key(np.int64(key))) == reference.hash_key(key)


def test_hash_is_the_same_for_ever():
    assert int(hashing.hash_key(np.int64(1))) == 0x5692161D100B05E5


@pytest.mark.parametrize("stride", [1, 64, 2**20, 2**32, 2**44])
def test_neighbouring_keys_spread_over_the_upper_bits(stride):
    cells = {reference.hash_key(key * stride) >> 48 for key in range(4096)}
    assert len(cells) > 3900  # 4096 draws out of 65536 give about 3971 different ones


def home_cells(keys, bits):
    cells = np.full(len(keys), -1, np.int32)
    hashing.home_cells(np.array(keys, np.int64), bits, cells)
    return cells.tolist()


@settings(deadline=None)
@given(st.lists(INT64), st.integers(0, 31))
@example(EXTREMES, 31)
@example(EXTREMES, 0)
def test_home_cells_equal_the_reference(keys, bits):
    assert home_cells(keys, bits) == reference.home_cells(keys, bits)


DISTANCES = [1, 3, 7, 119, 901, 46411, 2**16 + 1, 10**9 + 7] + [2**power for power in range(4, 52, 3)]


@pytest.mark.parametrize("distance", DISTANCES)
def test_keys_at_equal_distances_have_different_home_cells_as_often_as_random_ones(distance):
    # 4096 draws out of 65536 give about 3971 different ones, give or take 11
    assert len(set(home_cells([key * distance for key in range(4096)], 16))) > 3900


@settings(deadline=None)
@given(INT64, st.integers(1, 10**6))
@example(-(2**63), 7)
@example(-(2**63), 2**62)
@example(-1, 1)
def test_owner_is_the_absolute_value_modulo_the_ranks(key, ranks):
    assert int(hashing.owner_rank(np.int64(key), np.int64(ranks))) == reference.owner_rank(key, ranks)


@settings(deadline=None)
@given(UINT64, UINT64)
def test_product_wraps_at_64_bits(a, b):
    assert int(bits.multiply_wrapping(np.uint64(a), np.uint64(b))) == reference_bits.multiply_wrapping(a, b)


@settings(deadline=None)
@given(UINT64.filter(bool))
@example(2**63)
@example(1)
def test_lowest_bit_equals_the_reference(word):
    assert int(bits.lowest_bit(np.uint64(word))) == reference_bits.lowest_bit(word)
