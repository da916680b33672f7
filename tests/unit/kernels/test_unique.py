"""Distinct keys of a batch."""
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.kernels import unique
from ascpipe.kernels.hashing import home_cells, spread_of
from ascpipe.kernels.records import Dedup
from tests.reference import unique as reference

INT64 = st.integers(-(2**63), 2**63 - 1)
BATCHES = st.lists(st.one_of(INT64, st.integers(-2, 5)), max_size=200)  # few values: many duplicates
SPREAD = spread_of(1)
EXTREMES = [-(2**63), 2**63 - 1, -1, 0, -1, -(2**63)]


def run_kernel(keys, garbage=-1, seed=1):
    """Outputs and scratch hold ``garbage`` on entry."""
    n = len(keys)
    out_unique, cells = np.full(n, garbage, np.int64), np.full(unique.scratch_cells(n), garbage, np.int32)
    restore, occurrences = np.full(n, garbage, np.int32), np.full(n, garbage, np.int32)
    dedup = Dedup(np.array(keys, np.int64), out_unique, restore, occurrences, cells)
    count = unique.unique_keys(dedup, spread_of(seed))
    return out_unique[:count].tolist(), restore.tolist(), occurrences[:count].tolist()


@settings(deadline=None)
@given(BATCHES)
@example([])
@example([7])
@example([5] * 100)
@example(EXTREMES)
def test_equals_the_reference(keys):
    assert run_kernel(keys) == reference.unique_keys(keys)


@settings(deadline=None)
@given(BATCHES)
def test_restore_index_rebuilds_the_batch(keys):
    distinct, restore, _ = run_kernel(keys)
    assert [distinct[place] for place in restore] == keys


@settings(deadline=None)
@given(BATCHES)
def test_occurrences_sum_to_the_batch_and_none_is_zero(keys):
    distinct, _, occurrences = run_kernel(keys)
    assert sum(occurrences) == len(keys)
    assert all(occurrences)
    assert len(set(distinct)) == len(distinct)


@settings(deadline=None)
@given(BATCHES, st.sampled_from([0, 1, 12345, -(2**31), 2**31 - 1]))
def test_what_the_scratch_held_before_changes_nothing(keys, garbage):
    assert run_kernel(keys, garbage) == run_kernel(keys)


@settings(deadline=None)
@given(BATCHES, st.integers(0, 2**64 - 1))
@example(EXTREMES, 0)
@example(list(range(150)), 2**64 - 1)
def test_no_result_depends_on_the_seed(keys, seed):
    assert run_kernel(keys, seed=seed) == reference.unique_keys(keys)


def homes(keys, bits, spread):
    cells = np.zeros(len(keys), np.int32)
    home_cells(keys, bits, spread, cells)
    return cells


def looks(keys, seed):
    """Cells that are looked at until all of different keys have one: each key stands where its search has ended."""
    n, cells, spread = len(keys), np.zeros(unique.scratch_cells(len(keys)), np.int32), spread_of(seed)
    found, restore, occurrences = np.zeros(n, np.int64), np.zeros(n, np.int32), np.zeros(n, np.int32)
    assert unique.unique_keys(Dedup(keys, found, restore, occurrences, cells), spread) == n
    (stands,) = np.nonzero(cells >= 0)
    home = homes(found[cells[stands]], len(cells).bit_length() - 1, spread)
    return int((1 + (stands - home) % len(cells)).sum())


@pytest.mark.long_once_more
def test_ids_that_were_made_to_meet_in_one_cell_are_as_random_ones_for_another_seed():
    n = 256
    tried = np.arange(2 * n * (n + 100))
    keys = tried[homes(tried, 9, spread_of(1)) == 77][:n]  # n keys for 2 n cells
    assert looks(keys, 1) == n * (n + 1) // 2
    assert all(looks(keys, seed) < 3 * n for seed in range(2, 40))  # random ones: 1.5 n


def large_batches():
    """Batches with long searches, and ones that fill their cells as far as cells may be filled."""
    rng = np.random.RandomState(0)
    half_new, known = rng.randint(0, 2000, unique._BLOCK), np.zeros(unique._BLOCK, int)
    all_new = 10**6 + np.arange(unique._BLOCK)
    return {
        "blocks_that_are_taken_in_either_way": np.concatenate(
            [half_new, 7 - half_new, known, known, half_new, all_new, -all_new, half_new, 9000 + half_new, [5]]),
        "all_different": rng.permutation(5000),
        "different_after_a_long_calm": np.concatenate([np.zeros(4000, int), np.arange(1000)]),
        "different_but_for_the_last": np.concatenate([np.arange(4999), [0]]),
        "skewed": rng.zipf(1.2, 6000) % 2**40,
        "half_of_the_cells": np.arange(2048),
        "multiples_of_a_large_power_of_two": np.arange(3000) << 50,
    }


@pytest.mark.parametrize("name", sorted(large_batches()))
def test_large_batches_equal_the_reference(name):
    keys = large_batches()[name].tolist()
    assert run_kernel(keys, garbage=1) == reference.unique_keys(keys)


def test_more_cells_than_needed_change_nothing():
    keys = [3, 1, 3, -1]
    out_unique, cells = np.zeros(4, np.int64), np.zeros(1000, np.int32)
    restore, occurrences = np.zeros(4, np.int32), np.zeros(4, np.int32)
    assert unique.unique_keys(Dedup(np.array(keys, np.int64), out_unique, restore, occurrences, cells), SPREAD) == 3
    assert restore.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 4096, 4097, 212992])
def test_scratch_is_a_power_of_two_of_at_least_twice_the_batch(n):
    cells = unique.scratch_cells(n)
    assert cells & cells - 1 == 0
    assert 2 * n <= cells <= max(1, 4 * n)


def weighed(weights, restore, count):
    out = np.full(count, -9, np.int32)
    unique.weigh_keys(np.array(weights, np.int32), np.array(restore, np.int32), out)
    return out.tolist()


INT32 = st.integers(-(2**31), 2**31 - 1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.one_of(INT32, st.integers(0, 3)), st.integers(0, 5)), max_size=100))
@example([(2**31 - 1, 0), (2**31 - 1, 0), (1, 1)])
@example([(2**31 - 1, 0), (-(2**31), 0), (1, 0)])
def test_sums_of_weights_equal_the_reference(ids):
    weights, restore = [weight for weight, _ in ids], [place for _, place in ids]
    assert weighed(weights, restore, 6) == reference.weigh_keys(weights, restore, 6)


def test_a_sum_of_weights_that_is_too_large_is_the_largest_int32_and_a_negative_weight_counts_as_none():
    assert weighed([2**31 - 2, 1, 1, -5, 3], [0, 0, 0, 1, 1], 2) == [2**31 - 1, 3]
