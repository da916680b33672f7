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
@given(UINT64)
@example(0)
@example(2**64 - 1)
def test_spread_of_a_seed_equals_the_reference(seed):
    assert tuple(map(int, hashing.spread_of(seed))) == reference.spread_of(seed)


def test_spread_of_a_seed_is_the_same_for_ever():
    assert hashing.spread_of(0) == (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)  # splitmix64, from 0


@settings(deadline=None)
@given(INT64, UINT64)
@example(-(2**63), 0)
@example(-1, 2**64 - 1)
def test_hash_equals_the_reference(key, seed):
    spread = hashing.spread_of(seed)
    assert int(hashing.hash_key(np.int64(key), spread)) == reference.hash_key(key, spread)


def home_cells(keys, bits, spread):
    cells = np.full(len(keys), -1, np.int32)
    hashing.home_cells(np.array(keys, np.int64), bits, spread, cells)
    return cells.tolist()


@settings(deadline=None)
@given(st.lists(INT64), st.integers(0, 31), UINT64)
@example(EXTREMES, 31, 1)
@example(EXTREMES, 0, 1)
def test_home_cells_equal_the_reference(keys, bits, seed):
    spread = hashing.spread_of(seed)
    assert home_cells(keys, bits, spread) == reference.home_cells(keys, bits, spread)


DISTANCES = [1, 3, 7, 119, 901, 46411, 2**16 + 1, 10**9 + 7, -1, 2**32 - 1] + [2**power for power in range(4, 52, 3)]


@pytest.mark.parametrize("distance", DISTANCES)
def test_keys_at_equal_distances_have_different_home_cells_as_often_as_random_ones(distance):
    # 4096 draws out of 65536 give about 3971 different ones, give or take 11
    for seed in range(4):
        spread = hashing.spread_of(seed)
        assert len(set(home_cells([key * distance for key in range(4096)], 16, spread))) > 3900


def alike(one, other, upper_bits, seeds=4000):
    """How many spreads of a sample give two keys the same upper bits."""
    spreads = [hashing.spread_of(seed) for seed in range(seeds)]
    return sum(int(hashing.hash_key(one, spread)) >> 32 - upper_bits == int(hashing.hash_key(other, spread))
               >> 32 - upper_bits for spread in spreads)


@pytest.mark.parametrize("one, other", [
    (0, 1), (0, 2**32), (0, -1), (1, 2**32), (5, 5 - 2**63), (7, 7 ^ 2**31), (2**32 - 1, 2**32), (-(2**63), 2**63 - 1),
    (3 << 40, 5 << 40), (1 << 61, 1 << 62)])
def test_two_keys_meet_as_seldom_as_two_random_numbers_do_whatever_the_keys(one, other):
    # 4000 spreads, one of 16 cells: 250, give or take 15
    assert 170 < alike(np.int64(one), np.int64(other), 4) < 330


@settings(deadline=None)
@given(UINT64, UINT64)
def test_product_wraps_at_64_bits(a, b):
    assert int(bits.multiply_wrapping(np.uint64(a), np.uint64(b))) == reference_bits.multiply_wrapping(a, b)


@settings(deadline=None)
@given(UINT64, UINT64)
def test_sum_wraps_at_64_bits(a, b):
    assert int(bits.add_wrapping(np.uint64(a), np.uint64(b))) == reference_bits.add_wrapping(a, b)


@settings(deadline=None)
@given(UINT64.filter(bool))
@example(2**63)
@example(1)
def test_lowest_bit_equals_the_reference(word):
    assert int(bits.lowest_bit(np.uint64(word))) == reference_bits.lowest_bit(word)


@settings(deadline=None)
@given(st.integers(0, 2**62))
def test_the_bit_of_a_frame_equals_the_reference(number):
    assert int(bits.frame_bit(number)) == reference_bits.frame_bit(number)
