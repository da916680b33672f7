"""Sample of the scenarios and planted flaws for ``make test``.

The others are long tests, because models do not execute code of the product.
"""
from typing import Any, Iterable, List

import pytest

FLAWS_ONE_IN, SCENARIOS_ONE_IN = 8, 3


def sampled(flaws: Iterable[str]) -> List[Any]:
    """Return all flaws by name as test parameters: one in ``FLAWS_ONE_IN`` runs by default, the others are long."""
    return _one_in(FLAWS_ONE_IN, flaws)


def sampled_scenarios(names: Iterable[str]) -> List[Any]:
    """Return all scenarios by name as test parameters: one in ``SCENARIOS_ONE_IN`` runs by default."""
    return _one_in(SCENARIOS_ONE_IN, names)


def _one_in(count: int, names: Iterable[str]) -> List[Any]:
    return [name if number % count == 0 else pytest.param(name, marks=pytest.mark.long)
            for number, name in enumerate(sorted(names))]
