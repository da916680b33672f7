"""Sample of the planted flaws for ``make test``.

The other flaws are long tests, because models do not execute code of the product.
"""
from typing import Any, Iterable, List

import pytest

ONE_IN = 4


def sampled(flaws: Iterable[str]) -> List[Any]:
    """Return all flaws by name as test parameters: one in ``ONE_IN`` runs by default, the others are marked long."""
    return [flaw if number % ONE_IN == 0 else pytest.param(flaw, marks=pytest.mark.long)
            for number, flaw in enumerate(sorted(flaws))]
