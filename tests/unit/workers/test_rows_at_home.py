"""Tables with home rows, admission, timestamps and cuts, told one by one; random schedules are in test_stages."""
import pytest

from ascpipe.layout.words import (
    PLAN_DEVICE_SMALL,
    PLAN_HOST_FULL,
    PLAN_NO_MEMORY,
    PLANNED,
    REQUEST_TAKEN,
    SLOT_HOME,
    SLOT_NONE,
    TOUCHED,
)
from tests.support.pipeline_sim import Sim
from tests.support.sim_disk import check_tier
from tests.support.sim_ring import Home
from tests.unit.workers.refusals import refusal


def host(device_rows, home_rows=20, **settings):
    rules = {name: settings.pop(name) for name in ("threshold", "coefficient") if name in settings}
    return Sim([device_rows], homes=[Home(home_rows, **rules)], **settings)


def places(sim, index=0):
    """key -> (slot, home)."""
    return {key: row[2:] for key, row in sim.truth(index).items()}


def counters(sim, *names):
    return [int(sim.tables[0].header[name]) for name in names]


# ---- device and host

def test_a_row_that_leaves_the_device_comes_back_from_its_home_row():
    sim = host(2)
    sim.train([1, 2])
    sim.train([3])  # 1 and 2 are used equally, the lower slot goes
    assert places(sim) == {1: (-1, 0), 2: (1, 1), 3: (0, 2)}
    sim.train([1, 1])
    assert places(sim) == {1: (1, 0), 2: (-1, 1), 3: (0, 2)}
    sim.check(0)
    assert counters(sim, "hits", "misses", "loads", "rows", "batches", "ids") == [0, 4, 1, 3, 3, 5]


def test_the_least_frequent_row_leaves_first():
    sim = host(3)
    for keys in ([1, 2], [1], [3], [1]):
        sim.train(keys)
    sim.train([4])
    assert places(sim)[2][0] == -1
    sim.check(0)


def test_a_row_that_a_batch_ahead_needs_stays_while_another_victim_exists():
    sim = host(3, plan_ahead=1)
    sim.train([1, 2, 3])
    sim.train([2, 3])
    now, _, ahead = sim.submit([4]), sim.submit([5]), sim.submit([1])
    sim.work()
    assert sim.word(ahead.number, 0) == TOUCHED
    assert sim.claim(now, 0)
    sim.close(now)
    sim.work()
    assert places(sim)[1][0] >= 0  # although it is the least frequent
    assert places(sim)[2][0] == -1


def test_of_rows_that_are_all_needed_the_one_used_latest_leaves():
    sim = host(2, plan_ahead=1)
    sim.train([1, 2])
    now, _, _ = sim.submit([3]), sim.submit([1]), sim.submit([2])
    sim.work()
    assert sim.claim(now, 0)
    sim.close(now)
    sim.work()
    assert places(sim)[1][0] >= 0
    assert places(sim)[2][0] == -1


def test_a_device_of_exactly_one_batch_trains_any_batches():
    sim = host(4, home_rows=40, frames=8)
    for step in range(30):
        sim.train([(7 * step + i * i) % 40 for i in range(4)])
    sim.check(0)


def test_a_batch_with_more_keys_than_the_device_has_rows_says_so_and_loses_nothing():
    sim = host(2)
    sim.train([1, 2])
    assert refusal(sim, [1, 2, 3]) == (PLAN_DEVICE_SMALL, 3)
    sim.train([3])
    sim.check(0)


def test_more_keys_than_home_rows_say_so_and_lose_nothing():
    sim = host(2, home_rows=3)
    sim.train([1, 2])
    assert refusal(sim, [3, 4]) == (PLAN_HOST_FULL, 4)
    sim.train([3])
    sim.check(0)


@pytest.mark.parametrize("what", ["ready_homes", "ready_entries"])
def test_a_machine_without_memory_says_so_and_may_go_on_later(what, monkeypatch):
    sim = host(4)
    sim.train([1])
    view = sim.tables[0]
    with monkeypatch.context() as scarce:
        scarce.setattr(view, what, lambda count: count <= 1)
        view.header[{"ready_homes": "homes_ready", "ready_entries": "entries_ready"}[what]] = 1
        sim.kill(0)
        assert refusal(sim, [2, 3]) == (PLAN_NO_MEMORY, 3)
        sim.train([1])
    sim.kill(0)
    sim.train([2, 3])
    sim.check(0)


def test_a_revoked_plan_gives_slots_home_rows_and_victims_back():
    sim = host(2)
    sim.train([1, 2])
    first, second = sim.submit([3, 4]), sim.submit([5])
    sim.work()
    assert sim.word(second.number, 0) == PLANNED
    sim.close(first)
    sim.work()
    assert sim.claim(second, 0)
    sim.close(second)
    sim.work()
    assert places(sim) == {1: (-1, 0), 2: (1, 1), 5: (0, 2)}
    sim.check(0)


def test_an_evaluation_finds_rows_on_the_device_and_at_home():
    sim = host(2)
    sim.train([1, 2])
    sim.train([3])
    answers, = sim.evaluate([1, 2, 3, 9])
    assert answers == {1: SLOT_HOME, 2: 1, 3: 0, 9: SLOT_NONE}
    sim.check_answers(0, answers)


def test_a_table_without_device_rows_uses_its_rows_at_home():
    sim = Sim([0], homes=[Home(8)])
    sim.train([5, 7, 5])
    sim.train([7, 9])
    assert places(sim) == {5: (-1, 0), 7: (-1, 1), 9: (-1, 2)}
    assert sim.evaluate([7, 8]) == [{7: SLOT_HOME - 1, 8: SLOT_NONE}]
    assert counters(sim, "hits", "misses", "loads", "rows") == [1, 3, 0, 3]
    sim.check(0)


def test_a_row_on_its_way_to_disk_is_nobodys_once_the_table_is_emptied(monkeypatch):
    sim = Sim([2], homes=[Home(4, disk=20)], frames=8)
    for keys in ([1, 2], [3, 4]):
        sim.train(keys)
    with monkeypatch.context() as slow:
        slow.setattr(sim.disks[0], "step", sim.disks[0].take)
        ahead = sim.submit([5, 6])
        sim.work()
        assert (sim.disks[0].requests["word"] == REQUEST_TAKEN).sum() == 2
        sim.ask_reset(0)
        sim.work()
        assert sim.cut_is_applied(0)
    sim.work()
    check_tier(sim, 0)
    assert sim.claim(ahead, 0)
    sim.close(ahead)
    for keys in ([1, 2], [3, 4], [7, 8], [1, 3]):
        sim.train(keys)
    sim.check(0)
    check_tier(sim, 0)


# ---- admission

@pytest.mark.parametrize("device_rows, home_rows", [(20, 0), (8, 20), (0, 20)])
def test_the_incumbents_example_of_admission(device_rows, home_rows):
    """mx_rec.md 2.8: threshold 2, the occurrences of the batch itself included."""
    sim = Sim([device_rows], homes=[Home(home_rows, threshold=2)])
    ids = [11, 11, 33, 44, 11, 55, 88, 55]
    times = dict(zip(ids, (1, 2, 1, 3, 1, 1, 4, 1)))
    times.update({11: 1 + 2 + 1, 55: 1 + 1})
    batch = [key for key, count in times.items() for _ in range(count)]
    sim.train(batch)
    assert {key for key, (slot, home) in places(sim).items() if slot >= 0 or home >= 0} == {11, 44, 55, 88}
    assert counters(sim, "rows") == [4]
    assert sim.truth(0)[33][0] == 1  # a count is trained state
    sim.train([33])
    assert counters(sim, "rows") == [5]
    sim.check(0)


@pytest.mark.parametrize("threshold, coefficient, occurrences", [(5, 2, 3), (5, 1, 5), (4, 4, 1), (0, 1, 1)])
def test_a_key_is_admitted_after_threshold_by_coefficient_occurrences(threshold, coefficient, occurrences):
    sim = host(4, threshold=threshold, coefficient=coefficient)
    for step in range(occurrences):
        assert counters(sim, "rows") == [0], step
        sim.train([7])
    assert counters(sim, "rows") == [1]
    sim.check(0)


def test_counting_stops_with_a_threshold_of_0_and_goes_on_with_another():
    sim = host(4, threshold=2)
    sim.train([1], timestamp=5)
    for threshold, rows, count in ((0, 0, 1), (0, 0, 1), (3, 0, 2), (2, 1, 3)):
        sim.ask_threshold(0, threshold)
        sim.work()
        sim.train([1], timestamp=9)
        assert (counters(sim, "rows"), sim.truth(0)[1][0]) == ([rows], count)
    sim.check(0)


@pytest.mark.parametrize("threshold", [0, 1])
def test_keys_that_train_stay_young_while_nothing_is_counted(threshold):
    sim = host(4, threshold=threshold)
    sim.train([1, 2], timestamp=5)
    sim.ask_threshold(0, 0)
    sim.work()
    for time in (9, 14):
        sim.train([1, 3], timestamp=time)
    known = {1: (1, 14), 2: (1, 5), 3: (0, 14)} if threshold == 0 else {1: (1, 14), 2: (1, 5)}
    assert {key: state[:2] for key, state in sim.truth(0).items()} == known  # count and time
    sim.ask_eviction(0, 5)
    sim.work()
    assert sorted(sim.truth(0)) == sorted(set(known) - {2})
    sim.check(0)


def test_a_table_that_a_step_does_not_fetch_gives_its_keys_their_time_while_nothing_is_counted():
    sim = Sim([4, 4], homes=[Home(), Home(8, threshold=1)])
    sim.train([1], [1], timestamp=5)
    sim.ask_threshold(1, 0)
    sim.work()
    batch = sim.submit([1], [1, 2], timestamp=9)
    sim.work()
    assert sim.claim(batch, 0)
    sim.close(batch)
    sim.work()
    assert {key: state[:2] for key, state in sim.truth(1).items()} == {1: (1, 9)}
    sim.train([1], [1], timestamp=10)
    sim.check(1)


def test_a_row_stays_when_the_threshold_rises_above_its_count_and_is_not_used():
    sim = host(1, threshold=1)
    sim.train([1])
    sim.ask_threshold(0, 5)
    sim.work()
    sim.train([1])
    assert places(sim) == {1: (0, 0)}
    assert sim.evaluate([1]) == [{1: SLOT_NONE}]
    sim.train([2, 2, 2, 2, 2, 1])
    assert places(sim) == {1: (-1, 0), 2: (0, 1)}  # its slot is free for others, even in a batch that names it
    sim.train([1, 1])
    sim.check(0)


def test_a_table_without_admission_has_no_threshold():
    sim = host(4)
    sim.ask_threshold(0, 100)
    sim.work()
    sim.train([1])
    assert counters(sim, "rows", "access_threshold") == [1, -1]


def test_a_table_that_a_step_does_not_fetch_counts_unknown_keys_where_counts_admit():
    sim = Sim([4, 4, 4], homes=[Home(), Home(8, threshold=2), Home(8)])
    batch = sim.submit([1], [1], [1], timestamp=3)
    sim.work()
    assert sim.claim(batch, 0)
    sim.close(batch)
    sim.work()
    assert (sim.truth(1), sim.truth(2)) == ({1: (1, 3, -1, -1)}, {})
    sim.train([1], [1], [1])
    for index in range(3):
        sim.check(index)
    assert [int(view.header["rows"]) for view in sim.tables] == [1, 1, 1]


# ---- timestamps and eviction

def test_time_is_the_greatest_timestamp_of_a_trained_batch():
    sim = host(4)
    for key, timestamp in ((1, 10), (2, 4), (3, 0), (4, 11)):
        sim.train([key], timestamp=timestamp)
    assert [row[1] for row in sim.truth(0).values()] == [10, 10, 10, 11]
    dead = sim.submit([1], timestamp=99)
    sim.work()
    sim.close(dead)
    sim.work()
    assert counters(sim, "time") == [11]


@pytest.mark.parametrize("device_rows, home_rows", [(8, 0), (2, 20), (0, 20)])
def test_keys_that_are_old_enough_leave_and_come_back_with_a_new_row(device_rows, home_rows):
    sim = Sim([device_rows], homes=[Home(home_rows, threshold=1)])
    for key in (1, 2, 3):
        sim.train([key], timestamp=10 * key)
    sim.ask_eviction(0, 11)
    sim.work()
    assert set(sim.truth(0)) == {2, 3}
    assert counters(sim, "rows", "evicted") == [2, 1]
    sim.check(0)
    sim.train([1], timestamp=31)  # with the place of its former row, or another
    assert sim.truth(0)[1][:2] == (1, 31)
    sim.check(0)


def test_a_frame_that_is_touched_stays_touched_when_its_keys_are_evicted():
    sim = host(4, threshold=1)
    sim.train([1, 2], timestamp=1)
    sim.train([3], timestamp=9)
    ahead = sim.submit([1, 3], timestamp=10)
    sim.work()
    sim.ask_eviction(0, 5)
    while not sim.cut_is_applied(0):
        assert sim.stages[0].act()
    assert sim.word(ahead.number, 0) == TOUCHED
    assert set(sim.truth(0)) == {3}
    sim.work()
    assert sim.claim(ahead, 0)
    sim.close(ahead)
    sim.work()
    assert {key: row[:2] for key, row in sim.truth(0).items()} == {1: (1, 10), 3: (2, 10)}
    sim.check(0)


def test_a_reset_starts_again_with_time_and_rows():
    sim = host(2)
    sim.train([1, 2], timestamp=5)
    sim.train([3])
    sim.ask_reset(0)
    sim.work()
    assert counters(sim, "rows", "time", "entries_used") == [0, 0, 0]
    sim.train([9])
    assert places(sim) == {9: (0, 0)}
    sim.check(0)
