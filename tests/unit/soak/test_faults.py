"""Which faults happen: the same for a seed, all kinds soon, and never too many deaths of one worker."""
import collections
import itertools

import pytest

from ascpipe.daemon.lifecycle import RESTARTS, WINDOW_S
from ascpipe.daemon.worker_identity import KEY, TABLE
from tests.soak import events, faults
from tests.soak.faults import KILL, MESSAGES, ROLES, STALL, STOP, Pace

SEEDS = range(20)


def first(count, seed):
    return list(itertools.islice(faults.faults(seed, 1.0), count))


def test_a_seed_gives_the_same_faults_again_and_another_seed_others():
    assert first(100, 5) == first(100, 5)
    assert first(100, 5) != first(100, 6)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_kind_of_fault_comes_to_every_role_soon(seed):
    dealt = collections.Counter((fault.what, role) for fault in first(14, seed) for role in fault.roles or ("",))
    assert all(dealt[what, role] for what in (KILL, STALL) for role in ROLES)
    assert dealt[MESSAGES, ""] and dealt[STOP, TABLE]


def test_workers_of_each_role_are_stopped_for_good_at_some_time():
    assert {fault.roles for fault in first(250, 1) if fault.what == STOP} == {(role,) for role in ROLES}


def test_stalls_last_from_some_milliseconds_to_a_second_and_a_half():
    stalls = [fault.for_s for seed in SEEDS for fault in first(200, seed) if fault.what == STALL]
    assert 0.01 <= min(stalls) < 0.03
    assert 1.4 < max(stalls) <= 1.5


def test_now_and_then_workers_live_long_enough_to_show_what_they_leak():
    names = [fault.what for fault in first(63, 3)]  # three rounds with deaths, and one without
    assert not {KILL, STOP} & set(names[-21:])


def test_the_moments_are_as_far_apart_as_asked_on_average():
    gaps = [fault.after_s for fault in itertools.islice(faults.faults(1, 4.0), 2000)]
    assert sum(gaps) / len(gaps) == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_asked_for_no_worker_dies_as_often_as_ends_the_session(seed):
    pace, now, deaths = Pace(), 0.0, collections.defaultdict(list)
    for fault in first(3000, seed):
        now += fault.after_s / 4  # faster than any run
        dies_at = now + (15.0 if fault.what == STOP else 0.0)
        if fault.what in (KILL, STOP) and pace.allows(fault.roles, now):
            pace.note(fault.roles, dies_at)
            for role in fault.roles:
                deaths[role].append(dies_at)
    assert len(deaths[KEY]) > 20
    for of_role in deaths.values():
        for at in of_role:
            assert sum(at <= other <= at + WINDOW_S for other in of_role) <= RESTARTS


def test_the_program_saves_and_restores_first_and_does_everything_within_two_decks():
    dealt = list(itertools.islice(events.events(4), 4 + 2 * len(events.DECK)))
    assert dealt == list(itertools.islice(events.events(4), len(dealt)))
    assert [event.what for event in dealt[:4]] == [*events.SAVES, events.RESTORE]
    assert {event.what for event in dealt} == set(events.DECK)
    assert all(events.LEAST_STEPS <= event.steps <= events.MOST_STEPS for event in dealt)
