"""Device and home rows miss little more than Belady's optimum, the device exactly what the policy says, on any ids."""
import numpy as np
import pytest

from bench import cache
from tests.support import traces, window_policy

# trace, rows of a batch, passes, part of the distinct keys on the device, window, most times Belady's misses
SHORT = [
    (traces.GENERATED, 256, 1, 0.1, 16, 1.01),
    ("talkingdata", 512, 1, 0.1, 16, 1.13),
]
LONG = [
    ("criteo", 256, 2, 0.3, 16, 1.05),
    (traces.GENERATED, 256, 1, 0.3, 16, 1.01),
    ("talkingdata", 512, 1, 0.1, 60, 1.02),
    ("talkingdata", 2048, 1, 0.1, 16, 1.05),
    ("talkingdata", 2048, 1, 0.3, 16, 1.05),
    ("talkingdata", 512, 1, 0.3, 16, 1.25),
    ("talkingdata", 512, 1, 0.3, 60, 1.08),
    ("criteo", 256, 10, 0.1, 16, 1.05),
    ("criteo", 256, 10, 0.3, 16, 1.05),
    ("movielens", 512, 1, 0.1, 16, 1.05),
    ("movielens", 512, 1, 0.3, 16, 1.05),
]


def check(name, batch_rows, passes, part, window, most):
    keys = np.tile(traces.read(name), (passes, 1))
    trace = cache.batches_of(keys, batch_rows)
    device_rows = max(int(part * trace.keys), trace.largest)
    results = cache.compare(trace, device_rows, window)
    policy, _ = window_policy.replay([unique.tolist() for unique in trace.unique], device_rows, window)
    assert (results["misses"], results["refetches"]) == (policy.misses, policy.refetches)
    assert results["horizon_most"] == window
    assert 1 <= results["ratio"] <= most, "\n".join(cache.text_of(results))
    assert results["misses_min"] <= results["misses_lru"]


@pytest.mark.parametrize("case", SHORT, ids=str)
def test_cache_misses_little_more_than_belady(case):
    check(*case)


@pytest.mark.long
@pytest.mark.timeout_s(300)
@pytest.mark.parametrize("case", LONG, ids=str)
def test_cache_misses_little_more_than_belady_on_whole_traces(case):
    check(*case)


# trace, rows of a batch, passes, batches on the device, at home, window, most times Belady's misses
HOME = [
    (traces.GENERATED, 256, 2, 1, 8, 32, 1.01),
    pytest.param(("criteo", 256, 2, 1, 8, 60, 1.01), marks=pytest.mark.long),
    pytest.param(("talkingdata", 512, 1, 1, 8, 60, 1.05), marks=pytest.mark.long),
    pytest.param(("talkingdata", 512, 1, 1, 12, 60, 1.05), marks=pytest.mark.long),
]


@pytest.mark.parametrize("case", HOME, ids=str)
def test_home_rows_miss_little_more_than_belady_where_the_window_covers_them(case):
    name, batch_rows, passes, device, home, window, most = case
    trace = cache.batches_of(np.tile(traces.read(name), (passes, 1)), batch_rows)
    results = cache.compare(trace, device * trace.largest, window, home * trace.largest, 1)
    assert 1 <= results["home"]["ratio"] <= most, "\n".join(cache.text_of(results))
    assert results["home"]["misses_lru"] > 1.2 * results["home"]["misses_min"]


def test_rows_of_the_whole_window_that_are_fetched_at_once_drive_others_from_home():
    trace = cache.batches_of(np.tile(traces.read(traces.GENERATED), (2, 1)), 256)
    results = cache.compare(trace, trace.largest, 32, 8 * trace.largest, 32)
    assert results["home"]["ratio"] > 1.3
