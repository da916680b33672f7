"""Several ranks: their verdicts from each other's headers, in every order of events."""

import pytest

from tests.model.explore import HOLDS, explore
from tests.model.rank_scenarios import FAULTY, FLAWED, FLAWS, SHORT, planted
from tests.model.ranks import Together
from tests.model.sampling import sampled, sampled_scenarios


@pytest.mark.parametrize("name", sampled_scenarios(SHORT))
def test_ranks_train_the_same_batches_and_end_together(name):
    report = explore(Together(SHORT[name]))
    assert report.verdict == HOLDS, report.text()
    assert report.states > 100


@pytest.mark.parametrize("name", sampled_scenarios(FAULTY))
def test_a_fault_of_one_rank_ends_in_errors_and_no_save_has_it(name):
    report = explore(Together(FAULTY[name]))
    assert report.verdict == HOLDS, report.text()
    assert report.states > 100


@pytest.mark.parametrize("flaw", sampled(FLAWS))
def test_a_planted_flaw_of_ranks_is_caught(flaw):
    report = explore(Together(planted(flaw)))
    assert report.verdict != HOLDS


def test_what_flaws_of_ranks_are_planted_in_holds_without_them():
    assert set(FLAWED) == set(FLAWS)
    assert all(scenario in list(SHORT.values()) + list(FAULTY.values()) for scenario in FLAWED.values())
