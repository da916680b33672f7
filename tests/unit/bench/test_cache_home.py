"""Home rows of a part of the keys: the rule and Belady's optimum, on traces small enough to judge or to try all."""
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import cache_home, cache_policies
from bench.cache_home import Step, rank

FEW = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=2, unique=True), min_size=1, max_size=8)
MORE = st.lists(st.lists(st.integers(0, 15), min_size=1, max_size=3, unique=True), min_size=1, max_size=40)


def steps_of(batches, device_rows):
    """A device that lets those go that came first."""
    device, steps = [], []
    for keys in batches:
        ins = [key for key in keys if key not in device]
        others = [key for key in device if key not in keys]
        outs = others[:max(0, len(device) + len(ins) - device_rows)]
        device = [key for key in device if key not in outs] + ins
        steps.append(Step(ins, outs))
    return steps


def fewest_fetches(steps, home_rows):
    """By trying every choice of what stays; rows that move in need home rows before others leave the device."""
    states, device, used = {frozenset(): 0}, set(), set()
    for ins, outs in steps:
        device |= set(ins)
        following = {}
        for idle, fetches in states.items():
            others = sorted(idle - set(ins))
            total = fetches + len((set(ins) & used) - idle)
            for stay in itertools.combinations(others, min(len(others), home_rows - len(device))):
                after = frozenset(stay) | set(outs)
                following[after] = min(total, following.get(after, total))
        device -= set(outs)
        used |= set(ins)
        states = following
    return min(states.values())


def frames_that_become_near(batches, steps, home_rows, fetch_ahead):
    """For each batch: (the one being planned then, how many are retired, keys whose home rows must stay)."""
    near, retired, device = 0, 0, set()
    for number, step in enumerate(steps):
        while near <= min(number + fetch_ahead, len(batches) - 1):
            leaving = {key for before in steps[retired:number] for key in before.outs}
            kept = leaving.union(device, *batches[retired:near + 1])
            if len(kept) <= home_rows:
                yield number, retired, kept
                near += 1
            elif near <= number:
                retired += 1
            else:
                break
        device = device - set(step.outs) | set(step.ins)
        retired = max(retired, number - 1)


def by_sorting(batches, steps, home_rows, window, fetch_ahead):
    """The rule a second time: sets, and a search of all candidates for each row that leaves."""
    fetches = spills = done = 0
    home, scores, seen = set(), {}, set()
    for near, (number, retired, kept) in enumerate(frames_that_become_near(batches, steps, home_rows, fetch_ahead)):
        for before in range(done, retired):
            scores.update((key, cache_policies.score_after_use(scores.get(key), before)) for key in batches[before])
        done = retired
        later = list(enumerate(batches))[near + 1:number + window + 1]
        next_use = {key: at for at, keys in reversed(later) for key in keys}
        while len(home | kept) > home_rows:
            home.remove(min(home - kept, key=lambda key: rank(scores[key], next_use.get(key), key)))
            spills += 1
        fetches += len(set(batches[near]) & seen - home)
        home |= kept
        seen |= kept
    return len(seen) + fetches, fetches, spills


def fewest_fetches_ahead(batches, steps, home_rows, fetch_ahead):
    """By trying every choice of what stays where rows are fetched ahead, and leave when their batches are retired."""
    states, seen = {frozenset(): 0}, set()
    for near, (_, _, kept) in enumerate(frames_that_become_near(batches, steps, home_rows, fetch_ahead)):
        following = {}
        for home, fetches in states.items():
            others, total = sorted(home - kept), fetches + len(set(batches[near]) & seen - home)
            for stay in itertools.combinations(others, min(len(others), home_rows - len(kept))):
                after = kept.union(stay)
                following[frozenset(after)] = min(total, following.get(frozenset(after), total))
        states = following
        seen |= kept
    return min(states.values())


@settings(deadline=None)
@given(FEW, st.integers(2, 3), st.integers(0, 2))
def test_belady_fetches_as_few_as_any_choice_of_what_stays(batches, device_rows, more):
    steps, home_rows = steps_of(batches, device_rows), device_rows + 2 + more
    least = cache_home.replay_worth(batches, steps, home_rows, cache_policies.belady_worth(batches))
    assert least.fetches == fewest_fetches(steps, home_rows)
    assert least.misses - least.fetches == len({key for keys in batches for key in keys})


@settings(deadline=None)
@given(MORE, st.integers(3, 6), st.integers(0, 6), st.integers(0, 8), st.integers(0, 8))
def test_any_trace_is_replayed_as_the_rule_says(batches, device_rows, more, window, fetch_ahead):
    steps, home_rows, fetch_ahead = steps_of(batches, device_rows), device_rows + 3 + more, min(window, fetch_ahead)
    ours = cache_home.replay(batches, steps, home_rows, window, fetch_ahead)
    assert (ours.misses, ours.fetches, ours.spills) == by_sorting(batches, steps, home_rows, window, fetch_ahead)


@settings(deadline=None)
@given(FEW, st.integers(2, 3), st.integers(0, 4), st.integers(0, 3))
def test_no_rule_that_fetches_ahead_fetches_fewer_than_ours_if_it_knows_the_whole_trace(
        batches, device_rows, more, fetch_ahead):
    steps, home_rows = steps_of(batches, device_rows), device_rows + 2 + more
    ours = cache_home.replay(batches, steps, home_rows, len(batches), fetch_ahead)
    assert ours.fetches == fewest_fetches_ahead(batches, steps, home_rows, fetch_ahead)


@settings(deadline=None)
@given(MORE, st.integers(3, 6), st.integers(0, 6), st.integers(0, 4), st.integers(0, 4))
def test_no_rule_fetches_fewer_than_belady(batches, device_rows, more, window, fetch_ahead):
    steps, home_rows = steps_of(batches, device_rows), device_rows + 3 + more
    levels = [cache_home.replay_worth(batches, steps, home_rows, worth)
              for worth in (cache_policies.belady_worth(batches), cache_policies.lru_worth(),
                            cache_policies.lfu_worth())]
    for level in levels + [cache_home.replay(batches, steps, home_rows, window, min(window, fetch_ahead))]:
        assert level.fetches >= levels[0].fetches
        assert level.misses - level.fetches == levels[0].misses - levels[0].fetches
        assert level.spills >= level.fetches


def test_rows_that_no_batch_of_the_window_uses_leave_first_then_those_used_last():
    in_order = [rank(3.0, None, 8), rank(5.0, None, 1), rank(5.0, None, 2), rank(0.0, 9, 0), rank(9.0, 7, 0)]
    assert sorted(in_order) == in_order


@pytest.mark.parametrize("window, fetches", [(0, 1), (1, 0)])
def test_a_row_that_the_window_uses_stays_although_it_was_used_least(window, fetches):
    """Key 1 was used least, and is used next, when key 7 needs a home row."""
    batches = [[2], [1], [2], [3], [4], [5], [6], [7], [1]]
    assert cache_home.replay(batches, steps_of(batches, 1), 6, window, 0).fetches == fetches


def test_a_plan_without_room_waits_until_an_earlier_batch_is_retired():
    batches = [[0, 1], [2, 3], [4, 5], [0, 1]]
    ours = cache_home.replay(batches, steps_of(batches, 2), 4, 2, 0)
    assert (ours.waits, ours.fetches, ours.spills) == (2, 2, 4)
    assert cache_home.replay(batches, steps_of(batches, 2), 100, 2, 0).waits == 0
