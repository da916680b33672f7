"""The device cache misses little more than Belady's optimum, and exactly what the policy says, on any ids."""
import numpy as np
import pytest

from bench import cache
from tests.support import traces, window_policy

# trace, rows of a batch, passes, part of the distinct keys on the device, window, most times Belady's misses
SHORT = [
    (traces.GENERATED, 256, 1, 0.1, 16, 1.01),
    (traces.GENERATED, 256, 1, 0.3, 16, 1.01),
    ("talkingdata", 2048, 1, 0.1, 16, 1.05),
    ("talkingdata", 2048, 1, 0.3, 16, 1.05),
    ("talkingdata", 512, 1, 0.1, 16, 1.13),
    ("talkingdata", 512, 1, 0.3, 16, 1.25),
    ("talkingdata", 512, 1, 0.1, 60, 1.02),
    ("talkingdata", 512, 1, 0.3, 60, 1.08),
    ("criteo", 256, 2, 0.3, 16, 1.05),
]
LONG = [
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
