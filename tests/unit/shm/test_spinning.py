"""How long the owner of a bell looks again before it sleeps: as long as waits have lasted of late."""
import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest

from ascpipe.layout import structs
from ascpipe.shm import bell as bell_module
from ascpipe.shm.bell import Bell, spin_after


@pytest.mark.parametrize("waited_us, spin_us", [
    (0, 20), (9, 20), (10, 20), (60, 120), (100, 200), (200, 200), (201, 0), (10 ** 6, 0)])
def test_twice_as_long_as_the_last_wait_within_limits_and_not_at_all_after_a_long_one(waited_us, spin_us):
    assert spin_after(waited_us * 1000, 200_000) == spin_us * 1000


@pytest.mark.parametrize("waited_ns", [0, 1, 10 ** 9])
def test_who_may_not_spin_never_does(waited_ns):
    assert spin_after(waited_ns, 0) == 0


@pytest.fixture
def bell(monkeypatch):
    """One that may spin for 2 ms, in a time that goes on by 10 us with each look at it."""
    ticks = itertools.count(0, 10_000)
    monkeypatch.setattr(bell_module, "time", SimpleNamespace(
        perf_counter_ns=lambda: next(ticks), monotonic=time.monotonic))
    return Bell(np.zeros(structs.SESSION_BYTES, np.uint8), 0, 2000)


def looks(bell, true_at=0):
    """How often the owner looks, at most for a moment, for what is true when it looks for the so-manieth time."""
    count = itertools.count(1)
    seen = []
    bell.wait(lambda: seen.append(next(count)) or seen[-1] == true_at, lambda: False, 0.0)
    return len(seen)


def test_a_wait_in_vain_is_followed_by_one_that_sleeps_at_once(bell):
    asleep = looks(bell) - 200
    assert [looks(bell), looks(bell)] == [asleep, asleep]


def test_a_wait_that_was_short_is_followed_by_one_that_spins_twice_as_long(bell):
    assert looks(bell, true_at=12) == 12  # 100 us after it began
    asleep = looks(bell) - 20
    assert looks(bell, true_at=3) == 3  # it sleeps, and is woken soon
    assert looks(bell) == asleep + 4
