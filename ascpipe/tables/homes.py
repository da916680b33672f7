"""Free home rows of a table, the lowest one first.

Rows below ``high_water`` are in use or stand in a stack with the lowest on top; all above are free.  So what
is taken next depends on the set of free rows alone, and what was taken last can be given back.
"""
from typing import Optional

import numpy as np


class FreeHomes:
    """The free home rows; all are free at first.

    Args:
        ends: int64[2], where ``high_water`` and the height of the stack are kept; memory of its own by default.

    Attributes:
        stack: int32[>= height]; free rows below ``high_water``, the lowest on top.
    """

    def __init__(self, ends: Optional[np.ndarray] = None) -> None:
        self._ends = np.zeros(2, np.int64) if ends is None else ends
        self.stack = np.zeros(0, np.int32)

    @property
    def high_water(self) -> int:
        """All rows from here on are free."""
        return int(self._ends[0])

    @property
    def _count(self) -> int:
        return int(self._ends[1])

    def rebuild(self, used: np.ndarray) -> None:
        """Start again: all rows but those of int32[n] are free; duplicates are allowed."""
        high_water = int(used.max()) + 1 if len(used) else 0
        free = np.ones(high_water, np.bool_)
        free[used] = False
        self.stack = np.flatnonzero(free)[::-1].astype(np.int32)
        self._ends[:] = high_water, len(self.stack)

    def reach(self, n: int) -> int:
        """What ``high_water`` will be when n more are taken."""
        return self.high_water + max(0, n - self._count)

    def take(self, n: int) -> np.ndarray:
        """Take the n lowest free rows: int32[n], ascending."""
        below = min(n, self._count)
        taken = np.empty(n, np.int32)
        taken[:below] = self.stack[self._count - below:self._count][::-1]
        taken[below:] = np.arange(self.high_water, self.high_water + n - below)
        self._ends += n - below, -below
        return taken

    def give_back(self, taken: np.ndarray) -> None:
        """Give back the rows that were taken last, as ``take`` returned them."""
        n = len(taken)
        if n == 0:
            return
        # those that were above the high water are a run that ends just below it
        above = int((taken[::-1] == np.arange(self.high_water - 1, self.high_water - 1 - n, -1)).cumprod().sum())
        below = n - above
        self.stack[self._count:self._count + below] = taken[:below][::-1]
        self._ends += -above, below
