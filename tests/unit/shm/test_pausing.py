"""An owner that pauses is woken by those who wait for it, and not by those who only bring work."""
import threading
import time

import numpy as np
import pytest

from ascpipe.layout import bells, structs
from ascpipe.shm.bell import Bell, ring_plain
from tests.support.waiting import wait_until

LONG_S = 20.0


@pytest.fixture
def session():
    return np.zeros(structs.SESSION_BYTES, np.uint8)


def state(session):
    return int(session[structs.SESSION_BELLS_OFFSET:].view(structs.BELL)[0]["waiting"])


def sleeper(session, target):
    """A thread that runs ``target``, once its bell says that it sleeps or pauses."""
    thread = threading.Thread(target=target)
    thread.start()
    wait_until(lambda: state(session) != bells.AWAKE)
    return thread


def is_woken(thread):
    thread.join(.3)
    return not thread.is_alive()


def test_a_pause_ends_by_itself(session):
    began = time.monotonic()
    assert Bell(session, 0).pause(lambda: .05)
    assert .05 <= time.monotonic() - began < LONG_S and state(session) == bells.AWAKE


@pytest.mark.parametrize("ring", [lambda session: Bell(session, 0).ring(), lambda session: ring_plain(session, 0)],
                         ids=["worker", "supervisor"])
def test_a_pause_is_ended_by_one_that_waits_for_the_owner(session, ring):
    thread = sleeper(session, lambda: Bell(session, 0).pause(lambda: LONG_S))
    assert state(session) == bells.PAUSING
    ring(session)
    assert is_woken(thread) and state(session) == bells.AWAKE


def test_an_owner_that_finds_nothing_to_pause_for_does_not_sleep(session):
    assert not Bell(session, 0).pause(lambda: 0.0) and state(session) == bells.AWAKE


@pytest.mark.parametrize("ring", [lambda session: Bell(session, 0).ring(), lambda session: ring_plain(session, 0)],
                         ids=["worker", "supervisor"])
def test_a_ring_while_the_owner_looks_is_not_slept_through(session, ring):
    began, looks = time.monotonic(), []

    def look():
        looks.append(state(session))
        ring(session)
        return LONG_S

    assert Bell(session, 0).pause(look)
    assert time.monotonic() - began < LONG_S / 2 and looks == [bells.PAUSING] and state(session) == bells.AWAKE


def test_an_owner_that_fails_while_it_looks_is_awake(session):
    def look():
        raise ValueError("nothing to see")

    with pytest.raises(ValueError):
        Bell(session, 0).pause(look)
    assert state(session) == bells.AWAKE


def test_a_pause_is_not_ended_by_one_that_only_brings_work(session):
    thread = sleeper(session, lambda: Bell(session, 0).pause(lambda: LONG_S))
    Bell(session, 0).ring_unless_pausing()
    assert not is_woken(thread)
    Bell(session, 0).ring()
    assert is_woken(thread)


@pytest.mark.parametrize("ring", [Bell.ring, Bell.ring_unless_pausing])
def test_an_owner_that_sleeps_is_woken_by_either(session, ring):
    came = []
    bell = Bell(session, 0)
    thread = sleeper(session, lambda: bell.wait(lambda: bool(came), lambda: False, LONG_S, LONG_S))
    assert state(session) == bells.ASLEEP
    came.append(1)
    ring(Bell(session, 0))
    assert is_woken(thread)
    assert int(session[structs.SESSION_BELLS_OFFSET:].view(structs.BELL)[0]["late"]) == 0
