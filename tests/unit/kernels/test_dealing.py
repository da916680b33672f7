"""Distinct keys in order of their owners."""
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.kernels import dealing, unique
from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.records import Dedup
from tests.reference import dealing as reference
from tests.reference import unique as unique_reference

INT64 = st.integers(-(2**63), 2**63 - 1)
BATCHES = st.lists(st.one_of(INT64, st.integers(-9, 9)), max_size=200)  # few values: many duplicates
RANKS = st.one_of(st.integers(2, 9), st.integers(2, 4095))
EXTREMES = [-(2**63), 2**63 - 1, -1, 0, -1, -(2**63), -(2**63) + 1, 1]
GUARD = -77


def dealt(keys, ranks, garbage=-1):
    """(distinct keys, restore index, occurrences) of a batch; exactly the least cells are there, and a guard."""
    n, cells = len(keys), dealing.least_cells(len(keys), ranks)
    scratch = np.full(max(cells, unique.scratch_cells(n)) + 1, garbage, np.int32)
    found, restore, occurrences = np.zeros(n, np.int64), np.zeros(n, np.int32), np.zeros(n, np.int32)
    dedup = Dedup(np.array(keys, np.int64), found, restore, occurrences, scratch[:-1])
    count = unique.unique_keys(dedup, spread_of(1))
    scratch[cells:] = GUARD
    dealing.deal_keys(dedup._replace(cells=scratch[:cells]), count, ranks)
    assert (scratch[cells:] == GUARD).all()
    return found[:count].tolist(), restore.tolist(), occurrences[:count].tolist()


@settings(deadline=None)
@given(INT64, RANKS)
@example(-(2**63), 7)
@example(-(2**63), 4095)
@example(2**63 - 1, 4095)
@example(-1, 2)
@example(0, 3)
def test_the_owner_of_a_key_is_its_magnitude_modulo_the_ranks(key, ranks):
    assert dealing.owner_of(np.int64(key), ranks) == reference.owner_of(key, ranks) == abs(key) % ranks


@settings(deadline=None)
@given(BATCHES, RANKS, st.sampled_from([0, 1, -1, 2**31 - 1]))
@example([], 2, 0)
@example([7], 4095, 1)
@example([5] * 100, 3, 1)
@example(EXTREMES, 3, 1)
@example(EXTREMES, 2, 1)
@example(list(range(100)), 2, 1)
def test_dealt_keys_equal_the_reference(keys, ranks, garbage):
    assert dealt(keys, ranks, garbage) == reference.deal_keys(*unique_reference.unique_keys(keys), ranks)


@settings(deadline=None)
@given(BATCHES, RANKS)
def test_owners_stand_in_their_order_and_keys_of_one_in_order_of_first_appearance(keys, ranks):
    distinct, restore, occurrences = dealt(keys, ranks)
    assert [distinct[place] for place in restore] == keys
    assert occurrences == [keys.count(key) for key in distinct]
    owners = [abs(key) % ranks for key in distinct]
    assert owners == sorted(owners)
    for owner in set(owners):
        mine = [key for key in distinct if abs(key) % ranks == owner]
        assert mine == list(dict.fromkeys(key for key in keys if abs(key) % ranks == owner))


def test_keys_are_dealt_as_rec_sdk_deals_them():
    distinct, restore, _ = dealt([1, 4, 23, 14, 16, 7, 2, 21, 21, 29], 4)
    assert distinct == [4, 16, 1, 21, 29, 14, 2, 23, 7]
    assert [restore[i] - {0: 0, 1: 2, 2: 5, 3: 7}[abs(distinct[restore[i]]) % 4] for i in range(10)] == [
        0, 0, 0, 0, 1, 1, 1, 1, 1, 2]
    assert dealt([11, 11, 6, 16, 14, 8, 6, 5, 8, 6, 14, 11, 4, 12, 1, 13], 4)[1] == [
        9, 9, 7, 0, 8, 1, 7, 4, 1, 7, 8, 9, 2, 3, 5, 6]


@pytest.mark.parametrize("n", [0, 1, 5, 1000, 65536])
@pytest.mark.parametrize("ranks", [1, 2, 4095])
def test_cells_that_are_provided_are_a_power_of_two_and_enough_for_both(n, ranks):
    cells = dealing.cells_to_deal(n, ranks)
    assert cells & cells - 1 == 0
    assert cells >= max(unique.scratch_cells(n), dealing.least_cells(n, ranks))
    assert ranks > 1 or cells == unique.scratch_cells(n)
