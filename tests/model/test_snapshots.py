"""Entries are copied while a worker changes them, dies and starts again."""

import pytest

from tests.model.explore import BROKEN, HOLDS, explore
from tests.model.snapshots import FLAWED, FLAWS, SHORT, USUAL, Snapshots


@pytest.mark.parametrize("name", sorted(SHORT))
def test_a_snapshot_is_the_table_as_it_was_when_it_began(name):
    report = explore(Snapshots(SHORT[name]))
    assert report.verdict == HOLDS, report.text()
    assert report.states > 100


@pytest.mark.parametrize("flaw", sorted(FLAWS))
def test_a_planted_flaw_is_caught(flaw):
    report = explore(Snapshots(FLAWED.get(flaw, USUAL), flaw))
    assert report.verdict == BROKEN, report.text()


@pytest.mark.parametrize("flaw", sorted(FLAWED))
def test_what_a_flaw_is_planted_in_holds_without_it(flaw):
    assert explore(Snapshots(FLAWED[flaw])).verdict == HOLDS
