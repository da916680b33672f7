"""Conditions on keys, counts and timestamps, such as ``count>=10 and timestamp<1700000000``. The functions are pure."""
import re
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from ascpipe.errors import ArgumentError
from ascpipe.errors.base import shown
from ascpipe.rows.columns import COUNT, KEY, TIMESTAMP

_COMPARISONS: Dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    ">=": np.greater_equal, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal, "=": np.equal, ">": np.greater,
    "<": np.less}
_CLAUSE = re.compile(r"\s*({})\s*({})\s*([+-]?[0-9]{{1,19}})\s*\Z".format(
    "|".join((KEY, COUNT, TIMESTAMP)), "|".join(_COMPARISONS)))
_INT64 = (-(1 << 63), (1 << 63) - 1)


class Condition(NamedTuple):
    """Conjunction of comparisons.

    Attributes:
        clauses: (column, comparison, number) of each comparison.
    """

    clauses: Tuple[Tuple[str, str, int], ...]

    @property
    def columns(self) -> List[str]:
        """Return the columns whose values the condition needs."""
        return sorted({column for column, _, _ in self.clauses})

    def holds(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return bool[n], which is True for the rows that meet the condition.

        Args:
            values: int64[n] for each column of the condition, and for the keys.
        """
        held = np.ones(len(values[KEY]), bool)
        for column, comparison, number in self.clauses:
            held &= _COMPARISONS[comparison](values[column], number)
        return held


def parsed(text: Optional[str]) -> Condition:
    """Parse a condition. None is always true.

    Raises:
        ArgumentError: the text is not a condition.
    """
    clauses = []
    for clause in () if text is None else re.split(r"\band\b", text):
        found = _CLAUSE.match(clause)
        if found is None or not _INT64[0] <= int(found.group(3)) <= _INT64[1]:
            raise ArgumentError("Condition {} has the part {}, which is not a comparison of key, count or timestamp "
                                "with a number. Nothing was written. Write, for example, 'count>=10' or 'count>=10 and "
                                "timestamp<1700000000'".format(shown(text), shown(clause.strip())))
        clauses.append((found.group(1), found.group(2), int(found.group(3))))
    return Condition(tuple(clauses))
