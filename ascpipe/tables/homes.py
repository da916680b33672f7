"""Computes the free home rows of a table."""
from typing import Tuple

import numpy as np


def free_homes(used: np.ndarray) -> Tuple[int, np.ndarray]:
    """Return the free home rows: all rows not in ``used``, int32[n], which may have duplicates.

    Returns:
        (high-water mark: all rows from here on are free; int32[m]: stack of free rows below it, the lowest on top).
    """
    high_water = int(used.max()) + 1 if len(used) else 0
    free = np.ones(high_water, np.bool_)
    free[used] = False
    return high_water, np.flatnonzero(free)[::-1].astype(np.int32)
