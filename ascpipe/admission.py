"""Admission of keys to a table: bits of the field ``counting`` of a table's header, and arguments of CUT_THRESHOLD."""
from typing import Any

COUNTS = 1  #: bit of ``counting``: a table with an access threshold counts occurrences
CLOSED = 2  #: bit of ``counting``: keys without a row get no row and are not counted
CLOSE = -1  #: argument of the cut CUT_THRESHOLD that sets CLOSED
OPEN = -2  #: argument of the cut CUT_THRESHOLD that clears CLOSED


def counts(header: Any) -> bool:
    """Return whether a table with an access threshold counts occurrences. ``header`` has the TABLE fields."""
    return bool(header["counting"] & COUNTS)
