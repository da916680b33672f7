"""Samples the planted flaws for ``make test``. The others are long tests, as the models use no code of the product."""
from typing import Any, Iterable, List

import pytest

ONE_IN = 4


def sampled(flaws: Iterable[str]) -> List[Any]:
    """Return all flaws by name, as parameters of a test: one in ``ONE_IN`` runs by default, the others are long."""
    return [flaw if number % ONE_IN == 0 else pytest.param(flaw, marks=pytest.mark.long)
            for number, flaw in enumerate(sorted(flaws))]
