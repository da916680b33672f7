"""How long a worker lets work gather while training has batches ahead."""
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascpipe.workers import pace
from ascpipe.workers.pace import MOST_S, Pace, least_pause, pause_of

INTERVALS = st.floats(1e-6, 100)
AHEAD = st.integers(0, 64)


@pytest.mark.parametrize("interval_us, ahead, pause_us", [
    (400, 8, 1600), (400, 4, 800), (400, 3, 0), (400, 0, 0), (100, 8, 400), (400, 60, 12000), (12000, 8, 48000),
    (50000, 8, 100000), (50001, 8, 0), (15000, 60, 100000)])
def test_half_of_what_is_ahead_within_limits_and_nothing_where_fewer_than_two_batches_would_gather(
        interval_us, ahead, pause_us):
    assert pause_of(interval_us * 1e-6, ahead) == pytest.approx(pause_us * 1e-6)


@given(INTERVALS, AHEAD)
def test_training_never_uses_up_what_is_ahead_within_a_pause(interval_s, ahead):
    pause_s = pause_of(interval_s, ahead)
    assert 0 <= pause_s <= min(MOST_S, interval_s * ahead / 2)
    assert pause_s == 0 or pause_s >= 2 * interval_s


@pytest.mark.parametrize("pauses, pause_s", [
    ([], 0), ([None], 0), ([None, .002], .002), ([.003, .001], .001), ([.003, 0., None], 0)])
def test_the_ring_that_allows_least_decides_and_one_that_does_not_train_is_not_asked(pauses, pause_s):
    assert least_pause(pauses) == pause_s


@pytest.fixture
def ring(monkeypatch):
    """A ring and the time; ``at`` sets both."""
    ring = SimpleNamespace(header={"trained": 5}, now=10.)
    monkeypatch.setattr(pace, "time", SimpleNamespace(perf_counter=lambda: ring.now))

    def at(now, trained):
        ring.now, ring.header["trained"] = now, trained

    ring.at = at
    return ring


def test_the_interval_is_that_of_the_batches_since_the_last_call(ring):
    seen = Pace(ring)
    ring.at(10.002, 7)  # two batches in 2 ms
    assert seen.pause_s(6) == pytest.approx(.003)
    ring.at(10.012, 8)  # one in 10 ms
    assert seen.pause_s(6) == pytest.approx(.03)


def test_a_ring_that_has_not_trained_since_says_nothing_and_its_idle_time_counts(ring):
    seen = Pace(ring)
    ring.at(20., 5)
    assert seen.pause_s(8) is None
    ring.at(20.001, 6)  # ten seconds for one batch: training has just begun again
    assert seen.pause_s(8) == 0
    ring.at(20.002, 7)
    assert seen.pause_s(8) == pytest.approx(.004)
