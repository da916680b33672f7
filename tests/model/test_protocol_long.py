"""The protocol holds in every scenario, up to a million states each."""

import pytest

from tests.model.explore import HOLDS, explore
from tests.model.protocol import Protocol
from tests.model.scenarios import FLAWED, LONG

pytestmark = [pytest.mark.long, pytest.mark.timeout_s(1800)]


@pytest.mark.parametrize("name", sorted(LONG))
def test_the_protocol_holds_in_large_scenarios(name):
    report = explore(Protocol(LONG[name]))
    assert report.verdict == HOLDS, report.text()


@pytest.mark.parametrize("flaw", sorted(FLAWED))
def test_it_is_the_flaw_that_is_caught_and_not_its_scenario(flaw):
    report = explore(Protocol(FLAWED[flaw]))
    assert report.verdict == HOLDS, report.text()
