"""The comparison of two runs has what differs, and nothing else."""
import pytest

from ascpipe.report.trial import Change, changes, gain

BEFORE = {"run": {"steps per second": 50.0, "ids per second": 12000.0}, "settings": {"workers": 1, "look_ahead": 16},
          "bottlenecks": {"key worker": 0.6, "step": 0.4},
          "tables": [{"name": "user", "device_hit_rate": 0.5}, {"name": "item", "device_hit_rate": None}]}
AFTER = {"run": {"steps per second": 60.0, "ids per second": 14400.0}, "settings": {"workers": 2, "look_ahead": 16},
         "bottlenecks": {"key worker": 0.1, "step": 0.41, "disk": 0.49},
         "tables": [{"name": "user", "device_hit_rate": 0.505}, {"name": "item", "device_hit_rate": 0.5},
                    {"name": "new", "device_hit_rate": 0.9}]}


def test_figures_that_differ_are_shown_before_and_after():
    assert changes(BEFORE, AFTER) == [
        Change("steps per second", "50.00", "60.00"), Change("ids per second", "12,000", "14,400"),
        Change("setting workers", "1", "2"), Change("limited by disk", "0 %", "49 %"),
        Change("limited by key worker", "60 %", "10 %")]


def test_two_equal_runs_differ_in_nothing():
    assert [change.before == change.after for change in changes(BEFORE, BEFORE)] == [True, True]


@pytest.mark.parametrize("old, expected", [(50.0, 0.2), (120.0, -0.5), (0.0, None)])
def test_the_gain_is_a_share_of_the_first_run(old, expected):
    found = gain({"run": {"steps per second": old}}, AFTER)
    assert found == (None if expected is None else pytest.approx(expected))
