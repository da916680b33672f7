"""A process hangs if it is stopped, or waited for without using processor time."""
import pytest

from ascpipe.config import load_settings
from ascpipe.daemon.hangs import Hangs, Seen, awaited
from ascpipe.daemon.worker_identity import DISK, KEY, TABLE, Worker
from ascpipe.layout.words import WAIT_CUT, WAIT_DISK, WAIT_KEYS, WAIT_PLAN, WAIT_READ, WAIT_SENTENCES

SETTINGS = load_settings({"workers": 2, "table_workers": 2}, {})


def seen(pid=7, ticks=3, stopped=False, awaited=False):
    return {"a": Seen(pid, ticks, stopped, awaited)}


@pytest.mark.parametrize("why", [{"stopped": True}, {"awaited": True}, {"stopped": True, "awaited": True}])
def test_what_is_stopped_or_waited_for_and_does_not_move_hangs_since_the_first_look(why):
    hangs = Hangs()
    assert hangs.look(seen(**why), 100.0) == {}
    assert hangs.look(seen(**why), 101.0) == {"a": 1.0}
    assert hangs.look(seen(**why), 115.5) == {"a": 15.5}


@pytest.mark.parametrize("other", [{"ticks": 4}, {"pid": 8}])
def test_what_moved_or_is_another_process_begins_anew(other):
    hangs = Hangs()
    hangs.look(seen(awaited=True), 100.0)
    assert hangs.look(seen(awaited=True, **other), 110.0) == {}
    assert hangs.look(seen(awaited=True, **other), 112.0) == {"a": 2.0}


def test_what_nobody_waits_for_does_not_hang_and_is_forgotten():
    hangs = Hangs()
    hangs.look(seen(awaited=True), 100.0)
    assert hangs.look(seen(), 110.0) == {}
    assert hangs.look(seen(awaited=True), 111.0) == {}
    assert hangs.look({}, 112.0) == hangs.look(seen(awaited=True), 120.0) == {}


def test_of_each_wait_the_workers_are_known_that_it_is_for():
    assert awaited(WAIT_KEYS, -1, SETTINGS) == {Worker(KEY, 0), Worker(KEY, 1)}
    for wait in (WAIT_PLAN, WAIT_READ, WAIT_CUT):
        assert awaited(wait, 5, SETTINGS) == {Worker(TABLE, 1)}
        assert awaited(wait, -1, SETTINGS) == frozenset()
    assert awaited(WAIT_DISK, 0, SETTINGS) == {Worker(DISK, 0)}
    for wait in set(WAIT_SENTENCES) - {WAIT_KEYS, WAIT_PLAN, WAIT_READ, WAIT_CUT, WAIT_DISK}:
        assert awaited(wait, 0, SETTINGS) == frozenset(), WAIT_SENTENCES[wait]
