"""The score of a key orders keys by use that decays."""
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.kernels.frequency import next_frequency
from tests.reference import frequency as reference

TICKETS = st.integers(0, 2**31 - 1)


@settings(deadline=None)
@given(TICKETS, TICKETS)
@example(2**31 - 1, 2**31 - 1)
@example(0, 0)
@example(5, 5)
@example(1, 2**31 - 1)
def test_any_score_and_ticket_give_the_score_of_the_formula(score, now):
    assert next_frequency(score, now) == reference.next_frequency(score, now)


def test_every_distance_that_counts_gives_the_score_of_the_formula():
    for distance in range(700):
        for score, now in [(10000, 10000 + distance), (10000, 10000 - distance)]:
            assert next_frequency(score, now) == reference.next_frequency(score, now)


def score_of(tickets):
    score = 0
    for now in tickets:
        score = next_frequency(score, now)
    return score


def test_a_key_used_once_has_the_score_of_its_ticket():
    assert score_of([7]) == 7


def test_a_use_has_half_its_weight_after_64_tickets():
    assert score_of([100, 100]) == score_of([164]) == 164


def test_two_uses_just_now_outweigh_one_and_many_old_ones_do_not():
    assert score_of([990, 1000]) > score_of([1000])
    assert score_of([100] * 50) < score_of([1000])


def test_a_key_of_every_ticket_stays_within_500_of_the_last():
    last = 3000
    assert last + 300 < score_of(range(1, last + 1)) < last + 500


@pytest.mark.parametrize("gap", [1, 4, 30, 200])
def test_the_score_is_near_the_logarithm_of_the_sum_of_decayed_uses(gap):
    tickets = list(range(1, 2000, gap))
    exact = 64 * math.log2(math.fsum(2 ** (ticket / 64) for ticket in tickets))
    assert abs(score_of(tickets) - exact) < 60  # each use rounds by at most a half
