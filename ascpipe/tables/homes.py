"""Free home rows of a table, the lowest one first.

Rows below ``high_water`` are in use or stand in a stack with the lowest on top; all above are free.  So what
is taken next depends on the set of free rows alone, and what was taken last can be given back.
"""
import numpy as np


class FreeHomes:
    """The free home rows; all are free at first."""

    def __init__(self) -> None:
        self.high_water = 0  #: all rows from here on are free
        self._stack = np.zeros(0, np.int32)
        self._count = 0

    def rebuild(self, used: np.ndarray) -> None:
        """Start again: all rows but those of int32[n] are free; duplicates are allowed."""
        self.high_water = int(used.max()) + 1 if len(used) else 0
        free = np.ones(self.high_water, np.bool_)
        free[used] = False
        self._stack = np.flatnonzero(free)[::-1].astype(np.int32)
        self._count = len(self._stack)

    def reach(self, n: int) -> int:
        """What ``high_water`` will be when n more are taken."""
        return self.high_water + max(0, n - self._count)

    def take(self, n: int) -> np.ndarray:
        """Take the n lowest free rows: int32[n], ascending."""
        below = min(n, self._count)
        taken = np.empty(n, np.int32)
        taken[:below] = self._stack[self._count - below:self._count][::-1]
        taken[below:] = np.arange(self.high_water, self.high_water + n - below)
        self._count -= below
        self.high_water += n - below
        return taken

    def give_back(self, taken: np.ndarray) -> None:
        """Give back the rows that were taken last, as ``take`` returned them."""
        n = len(taken)
        if n == 0:
            return
        # those that were above the high water are a run that ends just below it
        above = int((taken[::-1] == np.arange(self.high_water - 1, self.high_water - 1 - n, -1)).cumprod().sum())
        self.high_water -= above
        below = n - above
        self._stack[self._count:self._count + below] = taken[:below][::-1]
        self._count += below
