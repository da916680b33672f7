"""Free home rows of a table, made anew."""
from typing import Tuple

import numpy as np


def free_homes(used: np.ndarray) -> Tuple[int, np.ndarray]:
    """The free home rows if all but those of int32[n] are free; duplicates are allowed.

    Returns:
        (the high water: all rows from here on are free; int32[m]: free rows below, the lowest on top).
    """
    high_water = int(used.max()) + 1 if len(used) else 0
    free = np.ones(high_water, np.bool_)
    free[used] = False
    return high_water, np.flatnonzero(free)[::-1].astype(np.int32)
