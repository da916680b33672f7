"""Who may hold the lease while he waits for what."""

from tests.model.lease import OPERATIONS, deadlocks

SETS = 2 ** len(OPERATIONS) - 1


def test_one_lease_for_all_tables_never_deadlocks_if_a_share_is_given_up_before_training():
    assert deadlocks(per_table=False, gives_up=True) == []


def test_a_run_that_keeps_its_share_while_it_waits_to_train_deadlocks():
    found = deadlocks(per_table=False, gives_up=False)
    assert 0 < len(found) < SETS**2


def test_a_lease_per_table_deadlocks_even_if_shares_are_given_up():
    found = deadlocks(per_table=True, gives_up=True)
    assert 0 < len(found) < SETS**2
    assert all(len(trace) >= 1 for _, trace in found)  # alone, nobody is stuck from the start
