"""Streams of ids: seeded, bounded, as skewed as they say."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import workloads


@given(st.lists(st.integers(-2 ** 63, 2 ** 63 - 1), unique=True, max_size=50))
def test_scrambling_keeps_distinct_numbers_distinct(numbers):
    scrambled = workloads.scramble(np.array(numbers, np.int64))
    assert scrambled.dtype == np.int64
    assert len(set(scrambled.tolist())) == len(numbers)


@pytest.mark.parametrize("distribution", workloads.DISTRIBUTIONS)
def test_the_same_seed_gives_the_same_batches_and_another_seed_others(distribution):
    def batches(seed):
        return workloads.batches(distribution, keys=1000, count=2, ids=300, seed=seed)

    assert batches(1).shape == (2, 300)
    np.testing.assert_array_equal(batches(1), batches(1))
    assert (batches(1) != batches(2)).any()


@pytest.mark.parametrize("exponent", [0.0, 1.05, 1.2])
def test_ranks_stay_within_bounds_and_follow_the_law(exponent):
    keys, n = 50, 200000
    counts = np.bincount(workloads.Zipf(keys, exponent, seed=3).ranks(n), minlength=keys)
    assert len(counts) == keys
    shares = np.arange(1, keys + 1, dtype=float) ** -exponent
    expected = n * shares / shares.sum()
    assert np.abs(counts - expected).max() < 6 * np.sqrt(expected.max())


def test_a_stream_without_keys_is_refused():
    with pytest.raises(ValueError, match="at least 1, not 0"):
        workloads.Zipf(0, 1.05, seed=1)
