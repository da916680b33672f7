"""`python -m bench cache`: the planner plans as the policy says, and the report has what was asked for."""
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import __main__ as command
from bench import cache, cache_policies, cache_replay
from tests.support import window_policy
from tests.support.covering import example_count

NAMES = {"misses", "misses_lru", "misses_lfu", "misses_min", "ratio"}


def check(keys, batch_rows, device_rows, window):
    """Every batch's plan is that of the policy; returns the policy, which has the counters."""
    trace = cache.batches_of(np.asarray(keys, np.int64), batch_rows)
    batches = [unique.tolist() for unique in trace.unique]
    device_rows = max(device_rows, trace.largest)
    policy, expected = window_policy.replay(batches, device_rows, window)
    plans = list(cache_replay.plans(trace.unique, trace.occurrences, trace.keys, device_rows, window))
    for number, (plan, (slots, outs)) in enumerate(zip(plans, expected)):
        assert plan.horizon == min(window, len(batches) - 1 - number)
        assert (plan.slots.tolist(), plan.outs.tolist()) == (slots, outs), "batch {}".format(number)
    assert sum(plan.fresh + plan.loads for plan in plans) == policy.misses
    assert sum(plan.loads for plan in plans) == policy.refetches
    return policy


@settings(deadline=None, max_examples=example_count(25, 200))
@given(st.lists(st.tuples(st.integers(-6, 12), st.integers(0, 25)), min_size=1, max_size=70), st.integers(1, 5),
       st.integers(0, 20), st.integers(0, 8))
def test_any_trace_is_planned_as_the_policy_says(keys, batch_rows, device_rows, window):
    check(keys, batch_rows, device_rows, window)


@pytest.mark.parametrize("window", [0, 1, 16, cache_replay.MOST_WINDOW])
def test_a_long_trace_of_skewed_keys_is_planned_as_the_policy_says(window):
    keys = np.random.RandomState(3).zipf(1.3, (3000, 3)) % 2000
    check(keys, 16, 100, window)


def test_a_window_that_covers_the_trace_misses_as_few_as_belady():
    keys = np.random.RandomState(4).zipf(1.2, (40 * 8, 2)) % 300
    policy = check(keys, 8, 30, 40)
    batches = [unique.tolist() for unique in cache.batches_of(keys, 8).unique]
    assert policy.misses == cache_policies.belady(batches, 30).all


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.npy"
    np.save(str(path), (np.random.RandomState(5).zipf(1.3, (500, 2)) % 400).astype(np.int64))
    return str(path)


def run(trace, *more, batch_rows="8", device_rows="60", window="4"):
    return command.main(["cache", "--trace", trace, "--batch-rows", batch_rows, "--device-rows", device_rows,
                         "--window", window, *more])


def test_the_report_has_the_misses_of_the_policies_and_the_horizon(trace, tmp_path, capsys):
    path = tmp_path / "out.json"
    assert run(trace, "--json", str(path)) == 0
    results = json.loads(path.read_text())
    batches = [unique.tolist() for unique in cache.batches_of(np.load(trace), 8).unique]
    policy, _ = window_policy.replay(batches, 60, 4)
    assert set(results) > NAMES
    assert (results["misses"], results["refetches"]) == (policy.misses, policy.refetches)
    assert results["misses_lru"] == cache_policies.lru(batches, 60).all
    assert results["misses_lfu"] == cache_policies.lfu(batches, 60).all
    assert results["misses_min"] == cache_policies.belady(batches, 60).all
    assert results["ratio"] == policy.misses / results["misses_min"] >= 1
    assert (results["horizon_least"], results["horizon_most"]) == (0, 4)
    assert results["entry_bytes"] <= 48
    assert results["index_bytes"] <= 18.1
    assert results["view_bytes"] == 4
    assert results["key_bytes"] <= 72
    assert results["slot_bytes"] <= 29
    printed = capsys.readouterr().out
    assert "horizon: 3.8 batches after the one being planned (0 to 4; 4 asked)" in printed
    assert str(policy.misses) in printed


def test_with_home_rows_the_report_has_the_misses_of_the_second_level(trace, tmp_path, capsys):
    path = tmp_path / "out.json"
    home_rows = 60 + cache.read(trace, 8).largest
    assert run(trace, "--home-rows", str(home_rows), "--fetch-ahead", "2", "--json", str(path)) == 0
    results = json.loads(path.read_text())
    home = results["home"]
    assert (home["rows"], home["fetch_ahead"]) == (home_rows, 2)
    for name in ("", "_min_ahead", "_lru", "_lfu", "_min"):
        assert home["misses" + name] - home["fetches" + name] == results["keys"]
        assert home["misses_min"] <= home["misses" + name] <= results["misses"]
        assert home["spills" + name] >= home["fetches" + name]
    assert home["ratio"] == home["misses"] / home["misses_min"]
    printed = capsys.readouterr().out
    assert "{} rows at home, the others on disk".format(home_rows) in printed
    assert "{:<22}{:>10}".format("ascpipe's rule", home["misses"]) in printed


@pytest.mark.parametrize("option, value, says", [
    ("--home-rows", "60", "--home-rows 60: the device has 60 rows and a batch"),
    ("--fetch-ahead", "5", "--fetch-ahead must be 0 to the window, 4, not 5"),
    ("--fetch-ahead", "-1", "--fetch-ahead must be 0 to the window, 4, not -1"),
])
def test_a_number_of_the_second_level_that_makes_no_sense_is_refused(trace, capsys, option, value, says):
    with pytest.raises(SystemExit):
        run(trace, option, value)
    assert says in capsys.readouterr().err


def test_a_device_smaller_than_a_batch_is_refused_with_the_number_it_needs(trace, capsys):
    largest = cache.read(trace, 8).largest
    with pytest.raises(SystemExit) as ended:
        run(trace, device_rows=str(largest - 1))
    assert ended.value.code == 2
    assert "--device-rows {}: a batch has {} distinct keys".format(largest - 1, largest) in capsys.readouterr().err


@pytest.mark.parametrize("option, value, says", [
    ("batch_rows", "0", "--batch-rows must be at least 1, not 0"),
    ("window", "-1", "--window must be 0 to"),
    ("window", "64", "--window must be 0 to"),
])
def test_a_number_that_makes_no_sense_is_refused(trace, capsys, option, value, says):
    with pytest.raises(SystemExit):
        run(trace, **{option: value})
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("keys", [np.zeros((3, 2), np.int32), np.zeros(5, np.int64), np.zeros((0, 2), np.int64),
                                  np.zeros((2, 2))])
def test_a_file_of_other_numbers_is_refused(tmp_path, capsys, keys):
    path = str(tmp_path / "trace.npy")
    np.save(path, keys)
    with pytest.raises(SystemExit):
        run(path)
    assert "not int64[rows, fields]" in capsys.readouterr().err


def test_a_file_that_is_missing_or_no_array_is_refused_by_name(tmp_path, capsys):
    text = tmp_path / "trace.npy"
    text.write_text("no numbers")
    for path in (str(text), str(tmp_path / "gone.npy")):
        with pytest.raises(SystemExit):
            run(path)
        assert "--trace {}:".format(path) in capsys.readouterr().err


def test_batches_have_their_keys_in_order_of_first_appearance_and_the_last_may_be_short():
    trace = cache.batches_of(np.array([[5, 3], [3, 9], [5, 5]]), 2)
    assert [unique.tolist() for unique in trace.unique] == [[5, 3, 9], [5]]
    assert [counts.tolist() for counts in trace.occurrences] == [[1, 2, 1], [2]]
    assert (trace.keys, trace.largest) == (3, 3)
