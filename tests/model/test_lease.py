"""Which process may hold the lease while it waits."""

import pytest

from tests.model.lease import AT_ONCE, NEVER, OPERATIONS, WHEN_READY, deadlocks

PAIRS = (2 ** len(OPERATIONS) - 1) ** 2

pytestmark = pytest.mark.smoke


def test_one_lease_for_all_tables_never_deadlocks_if_a_share_is_given_up_before_training():
    assert deadlocks(per_table=False, gives_up=AT_ONCE) == []


def test_a_run_that_keeps_its_share_while_it_waits_to_train_deadlocks():
    assert 0 < len(deadlocks(per_table=False, gives_up=NEVER)) < PAIRS


def test_a_run_that_gives_its_share_up_only_when_it_could_train_deadlocks():
    found = deadlocks(per_table=False, gives_up=WHEN_READY)
    assert 0 < len(found) <= len(deadlocks(per_table=False, gives_up=NEVER))


def test_a_lease_per_table_deadlocks_even_if_shares_are_given_up():
    found = deadlocks(per_table=True, gives_up=AT_ONCE)
    assert 0 < len(found) < PAIRS
    assert all(len(trace) >= 1 for _, trace in found)  # a run alone is never stuck at the start
