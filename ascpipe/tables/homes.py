"""Function that computes the free home rows of a table."""
from typing import Tuple

import numpy as np


def free_homes(used: np.ndarray) -> Tuple[int, np.ndarray]:
    """Return the home rows that are not in ``used``.

    Args:
        used: home rows in use, int32[n]. Duplicates are allowed.

    Returns:
        (high-water mark, stack int32[m]). All rows from the high-water mark on are free. The stack contains the free
        rows below the mark, with the lowest row on top.
    """
    high_water = int(used.max()) + 1 if len(used) else 0
    free = np.ones(high_water, np.bool_)
    free[used] = False
    return high_water, np.flatnonzero(free)[::-1].astype(np.int32)
