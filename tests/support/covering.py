"""Chooses few rows of switches that have every value, or every pair of values."""
import itertools
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence, Set, Tuple

import pytest

Row = Dict[str, Any]
_Pair = Tuple[Tuple[str, Any], Tuple[str, Any]]


EXAMPLES_ARE_LONG = os.environ.get("TEST_EXAMPLES") == "long"  #: `make test-sweeps` runs tests of hypothesis so, too


def pairwise(factors: Mapping[str, Sequence[Any]], allowed: Callable[[Row], bool]) -> List[Row]:
    """Rows in which each pair of values of two factors that is ``allowed`` occurs; the same ones in every run.

    Args:
        factors: the values of each.
        allowed: whether a row may be; it is also asked for rows that lack factors.

    Raises:
        ValueError: a pair is allowed by itself, but in no row.
    """
    open_pairs = {pair for pair in _all_pairs(factors) if allowed(dict(pair))}
    rows: List[Row] = []
    while open_pairs:
        seed = min(open_pairs, key=repr)
        row = _complete(dict(seed), factors, allowed, open_pairs)
        rows.append(row)
        open_pairs -= set(pairs_of(row))
    return rows


def pairs_of(row: Row) -> List[_Pair]:
    """Each pair of values of a row."""
    return list(itertools.combinations(sorted(row.items()), 2))  # type: ignore[arg-type]


def _all_pairs(factors: Mapping[str, Sequence[Any]]) -> List[_Pair]:
    return [((one, value), (other, another)) for one, other in itertools.combinations(sorted(factors), 2)
            for value in factors[one] for another in factors[other]]


def _complete(row: Row, factors: Mapping[str, Sequence[Any]], allowed: Callable[[Row], bool],
              open_pairs: Any) -> Row:
    """Give a row its other factors, each the value that covers most open pairs."""
    for name in sorted(set(factors) - set(row)):
        values = [value for value in factors[name] if allowed({**row, name: value})]
        if not values:
            raise ValueError("no value of {} goes with {}".format(name, row))

        def gain(value: Any, name: str = name) -> int:
            return len(open_pairs & set(pairs_of({**row, name: value})))

        row[name] = max(values, key=gain)
    return row


def diagonal(rows: Sequence[Sequence[Any]]) -> Set[int]:
    """Choose few rows of a product in which every value of every factor occurs.

    Args:
        rows: one value per factor; values are hashable.

    Returns:
        Numbers of the rows: those of the product's diagonal, and for each value that the diagonal lacks the first row
        that has it (the product may be incomplete).
    """
    factors = [list(dict.fromkeys(values)) for values in zip(*rows)]
    steps = range(max(map(len, factors), default=0))
    wanted = {tuple(values[step % len(values)] for values in factors) for step in steps}
    chosen = {number for number, row in enumerate(rows) if tuple(row) in wanted}
    for at, values in enumerate(factors):
        for value in values:
            if not any(rows[number][at] == value for number in chosen):
                chosen.add(next(number for number, row in enumerate(rows) if row[at] == value))
    return chosen


def example_count(short: int, long: int) -> int:
    """Return how many examples a test of hypothesis has: `long` if TEST_EXAMPLES is ``long``, else `short`."""
    return long if EXAMPLES_ARE_LONG else short


def some(values: Iterable[Any], *chosen: Any) -> List[Any]:
    """Return `values` as parameters of a test: those that are not `chosen` are long."""
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.long) for value in values]
