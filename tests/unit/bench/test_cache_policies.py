"""LRU, LFU and Belady's optimum, on traces small enough to judge by hand or by trying everything."""
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from bench import cache_policies

BATCHES = st.lists(st.lists(st.integers(0, 5), max_size=3, unique=True), max_size=7)


def fewest_misses(batches, rows):
    """By trying every choice of what stays."""
    states = {frozenset(): 0}
    for keys in batches:
        following = {}
        for held, misses in states.items():
            others = held - set(keys)
            kept = max(0, min(len(others), rows - len(keys)))
            for stay in itertools.combinations(sorted(others), kept):
                after = frozenset(stay) | set(keys)
                total = misses + len(set(keys) - held)
                following[after] = min(total, following.get(after, total))
        states = following
    return min(states.values())


@settings(deadline=None)
@given(BATCHES, st.integers(3, 5))
def test_belady_misses_as_few_as_any_choice_of_what_stays(batches, rows):
    assert cache_policies.belady(batches, rows).all == fewest_misses(batches, rows)


@settings(deadline=None)
@given(BATCHES, st.integers(3, 5))
def test_no_policy_misses_fewer_than_belady_or_than_there_are_keys(batches, rows):
    keys = {key for batch in batches for key in batch}
    least = cache_policies.belady(batches, rows).all
    for policy in (cache_policies.lru, cache_policies.lfu, cache_policies.belady):
        misses = policy(batches, rows)
        assert misses.all >= least
        assert misses.all - misses.refetches == len(keys)


def test_lru_lets_the_key_go_that_was_used_longest_ago():
    assert cache_policies.lru([[1], [2], [1], [3], [1]], 2) == (3, 0)
    assert cache_policies.lru([[1], [2], [1], [3], [2]], 2) == (4, 1)


def test_lfu_keeps_the_key_of_many_uses():
    often = [[1]] * 5 + [[2], [3], [1]]
    assert cache_policies.lfu(often, 2) == (3, 0)
    assert cache_policies.lru(often, 2) == (4, 1)


def test_lfu_forgets_uses_of_long_ago():
    assert cache_policies.lfu([[1]] * 5 + [[2]] * 400 + [[3], [2]], 2) == (3, 0)


def test_a_batch_keeps_its_own_keys():
    assert cache_policies.lru([[1, 2], [2, 3], [1, 2]], 2) == (4, 1)


def test_keys_that_all_fit_miss_once():
    trace = [[1, 2], [3], [2, 1], [3]]
    for policy in (cache_policies.lru, cache_policies.lfu, cache_policies.belady):
        assert policy(trace, 3) == (3, 0)


def test_next_use_of_a_key_is_the_next_batch_that_has_it():
    assert cache_policies.next_uses([[1, 2], [2], [3, 1]]) == [[2, 1], [3], [3, 3]]
