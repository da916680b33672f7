"""Rows on disk: with kills at every store, no row is lost, duplicated or misplaced, and every run ends."""

import random

import pytest

from tests.model.disk_rows import DiskRows
from tests.model.disk_scenarios import FLAWED, FLAWS, LONG, SHORT, planted, usual
from tests.model.disk_walks import any_scenario, walk
from tests.model.explore import BROKEN, HOLDS, STUCK, Violation, explore
from tests.model.sampling import sampled, sampled_scenarios

#: flaws that break no invariant, but let a run not end
ENDLESS = {
    "counter_seen_late", "disk_smaller_than_rows", "epoch_before_lease", "epoch_cleared_before_reap",
    "epoch_of_dead_stays", "home_rows_too_few", "pin_ignores_room", "raised_before_asked", "spills_too_late",
    "taken_not_repeated",
}


@pytest.mark.parametrize("name", sampled_scenarios(SHORT))
def test_rows_on_disk_are_what_training_made_of_them(name):
    report = explore(DiskRows(SHORT[name]))
    assert report.verdict == HOLDS, report.text()
    assert report.states > 500


@pytest.mark.parametrize("flaw", sampled(FLAWS))
def test_a_planted_flaw_of_rows_on_disk_is_caught(flaw):
    report = explore(DiskRows(planted(flaw)))
    assert report.verdict == (STUCK if flaw in ENDLESS else BROKEN), report.text()
    assert report.trace


@pytest.mark.long
@pytest.mark.timeout_s(1800)
@pytest.mark.parametrize("flaw", sorted(FLAWED))
def test_what_a_flaw_of_rows_on_disk_is_planted_in_holds_without_it(flaw):
    report = explore(DiskRows(usual(flaw)))
    assert report.verdict == HOLDS, report.text()


@pytest.mark.long
@pytest.mark.timeout_s(1800)
@pytest.mark.parametrize("name", sorted(LONG))
def test_rows_on_disk_are_what_training_made_of_them_in_large_scenarios(name):
    report = explore(DiskRows(LONG[name]))
    assert report.verdict == HOLDS, report.text()


@pytest.mark.parametrize("walks", [50, pytest.param(10000, marks=[pytest.mark.long, pytest.mark.timeout_s(1800)])])
def test_random_walks_through_larger_scenarios_end_well(walks, seed):
    chance = random.Random(seed)
    assert sum(walk(any_scenario(chance), chance) for _ in range(walks)) > 30 * walks


def test_random_walks_find_a_flaw(seed):
    chance = random.Random(seed)
    with pytest.raises(Violation):
        for _ in range(500):
            flaws = frozenset(("home_row_skips_quarantine", "generation_kept"))
            walk(any_scenario(chance)._replace(flaws=flaws), chance)


def test_names_of_scenarios_of_rows_on_disk_are_of_one_set():
    assert not set(SHORT) & set(LONG)
    assert set(FLAWED) <= set(FLAWS)
