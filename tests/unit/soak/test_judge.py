"""The judge of samples sees what leaks, and nothing else."""
import random

import pytest

from tests.soak.judge import DAEMON_KIB, LEAST_S, LIMITS, TRAINER_LIMITS, bracket, judge
from tests.soak.samples import Sample

WARM_UP_S, END_S = 120.0, 3600.0
KIB_OF_A_WORKER = 20_000


def sample(role, at_s, born_s=0.0, anon_kib=50_000, **others):
    values = {"shmem_kib": 100, "fds": 20, "maps": 300, "threads": 2, **others}
    return Sample(at_s, role, 1 + int(born_s), at_s - born_s, int(anon_kib), **values)


def moments(every_s=5.0, end_s=END_S):
    return [every_s * number for number in range(int(end_s / every_s))]


def living(role, anon=lambda at_s: 50_000, **others):
    """A process that lives all the time; memory by time."""
    return [sample(role, at_s, 0.0, anon(at_s), **others) for at_s in moments()]


def replaced(role, anon, seed=1, lives_s=(5.0, 90.0)):
    """Processes, one after the other; memory by time and age."""
    dice, found, born_s, dies_s = random.Random(seed), [], 0.0, 30.0
    for at_s in moments():
        if at_s >= dies_s:
            born_s, dies_s = at_s, at_s + dice.uniform(*lives_s)
        found.append(sample(role, at_s, born_s, anon(at_s, at_s - born_s)))
    return found


def young_ones_are_small(age_s):
    return KIB_OF_A_WORKER + 9_000 * min(1.0, age_s / 15)


def test_processes_that_grow_in_the_warm_up_and_then_no_more_are_well():
    verdict = judge(living("supervisor", lambda at_s: 40_000 + 100 * min(at_s, WARM_UP_S)), WARM_UP_S)
    assert (verdict.problems, verdict.drift_kib) == ([], 0)


def test_a_process_that_grows_all_the_time_is_named_with_its_growth():
    verdict = judge(living("supervisor", lambda at_s: 40_000 + 3 * at_s), WARM_UP_S)
    assert verdict.drift_kib == pytest.approx(3 * 0.8 * (END_S - WARM_UP_S), rel=0.02)
    grown = "grew by {:.0f}, more than".format(verdict.drift_kib)
    assert verdict.problems == [
        "anon_kib of supervisor {} {:g}".format(grown, LIMITS["anon_kib"]),
        "anon_kib of the daemon's processes together {} {:g}".format(grown, DAEMON_KIB)]


def test_peaks_that_go_again_are_no_growth():
    dice = random.Random(1)
    verdict = judge(living("supervisor", lambda at_s: 40_000 + (dice.random() < 0.2) * 60_000), WARM_UP_S)
    assert (verdict.problems, verdict.drift_kib) == ([], 0)


@pytest.mark.parametrize("seed", range(10))
def test_workers_that_are_replaced_and_begin_small_do_not_count_as_growth(seed):
    verdict = judge(replaced("table-0", lambda at_s, age_s: young_ones_are_small(age_s), seed), WARM_UP_S)
    assert not verdict.problems
    assert abs(verdict.drifts["table-0"]["anon_kib"]) < 1024


@pytest.mark.parametrize("seed", range(10))
def test_workers_that_begin_larger_and_larger_are_named(seed):
    verdict = judge(replaced("table-0", lambda at_s, age_s: young_ones_are_small(age_s) + 3 * at_s, seed), WARM_UP_S)
    assert any("anon_kib of table-0" in problem for problem in verdict.problems)


@pytest.mark.parametrize("seed", range(10))
def test_workers_that_leak_and_are_replaced_before_much_is_lost_are_named(seed):
    leaking = replaced("table-0", lambda at_s, age_s: young_ones_are_small(age_s) + 15 * age_s, seed)
    assert any("anon_kib of table-0 grows by" in problem for problem in judge(leaking, WARM_UP_S).problems)


def test_workers_that_stop_growing_are_well_however_they_began():
    dice = random.Random(5)
    sizes = {}
    samples = replaced("table-0", lambda at_s, age_s: young_ones_are_small(0 if age_s < 20 else 30))
    samples = [one._replace(anon_kib=one.anon_kib + sizes.setdefault(one.pid, dice.choice((0, 900))))
               for one in samples]
    verdict = judge(samples, WARM_UP_S)
    assert (verdict.problems, verdict.aging) == ([], {"table-0": 0})


def test_a_worker_that_is_young_at_the_end_alone_does_not_hide_a_leak_of_the_trainer():
    samples = [*replaced("key-0", lambda at_s, age_s: young_ones_are_small(age_s)),
               *living("trainer", lambda at_s: 200_000 + 8 * at_s)]
    verdict = judge(samples, WARM_UP_S)
    assert verdict.drift_trainer_kib > TRAINER_LIMITS["anon_kib"]
    assert [problem.split(" grew")[0] for problem in verdict.problems] == ["anon_kib of trainer"]


@pytest.mark.parametrize("name", ["fds", "maps", "threads", "shmem_kib"])
def test_descriptors_mappings_threads_and_shared_memory_are_judged_apart(name):
    limit = LIMITS[name]
    samples = [sample("supervisor", at_s, **{name: int(100 + 3 * limit * at_s / END_S)}) for at_s in moments()]
    (problem,) = judge(samples, WARM_UP_S).problems
    assert problem.startswith("{} of supervisor grew by".format(name))
    samples = [sample("supervisor", at_s, **{name: int(100 + limit * (at_s > END_S / 2))}) for at_s in moments()]
    assert not judge(samples, WARM_UP_S).problems


def test_descriptors_that_a_save_has_for_a_while_are_no_leak_and_one_that_stays_with_each_save_is():
    dice = random.Random(2)
    samples = [sample("trainer", at_s, fds=5 + 20 * (dice.random() < (0.8 if at_s > END_S / 2 else 0.2)))
               for at_s in moments()]
    assert not judge(samples, WARM_UP_S).problems
    leaking = [one._replace(fds=one.fds + int(one.at_s / 300)) for one in samples]
    (problem,) = judge(leaking, WARM_UP_S).problems
    assert problem.startswith("fds of trainer grew by")


def test_processes_that_have_just_begun_are_left_out():
    samples = [sample("key-0", at_s, at_s - 1.0, anon_kib=5000, fds=4) for at_s in moments(5.0, END_S / 2)]
    samples += [sample("key-0", END_S / 2 + at_s, END_S / 2) for at_s in moments(5.0, END_S / 2)]
    assert not judge(samples, WARM_UP_S).problems


def test_many_processes_that_grow_a_little_are_too_much_together():
    names = ["supervisor", "template", "key-0", "key-1", "table-0"]
    grown = 0.9 * LIMITS["anon_kib"]
    verdict = judge([one for name in names for one in living(name, lambda at_s: 9000 + grown * (at_s > 2000))],
                    WARM_UP_S)
    assert verdict.drift_kib == pytest.approx(len(names) * grown, abs=len(names))
    assert verdict.problems == ["anon_kib of the daemon's processes together grew by {:.0f}, more than {:g}".format(
        verdict.drift_kib, DAEMON_KIB)]


def test_a_run_of_some_seconds_is_measured_and_not_judged():
    samples = [sample("supervisor", at_s, 0.0, 40_000 + 1000 * at_s) for at_s in moments(0.25, LEAST_S / 2)]
    verdict = judge(samples, 5.0)
    assert verdict.drift_kib > LIMITS["anon_kib"]
    assert not verdict.problems


def test_without_samples_nothing_is_said():
    assert judge([], WARM_UP_S) == ({}, {}, None, None, [])
    assert judge(living("supervisor")[:10], WARM_UP_S).drift_kib is None


def test_each_bracket_is_twice_as_old_as_the_one_before():
    assert [bracket(age, 60.0) for age in (0.0, 5.0, 14.0, 29.0, 59.0, 60.0, 119.0, 121.0, 300.0)] == [
        -3, -3, -3, -2, -1, 0, 0, 0, 0]
