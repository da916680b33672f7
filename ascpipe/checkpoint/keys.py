"""Sets of keys as sorted arrays.  Pure."""
from typing import Tuple

import numpy as np


def places(keys: np.ndarray, sought: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Where keys are in a set.

    Args:
        keys: int64[n], in order, each once.
        sought: int64[m].

    Returns:
        int64[m]: the place of each; bool[m]: whether it is there at all, else its place means nothing.
    """
    if not len(keys):
        return np.zeros(len(sought), np.int64), np.zeros(len(sought), bool)
    found = np.searchsorted(keys, sought).clip(max=len(keys) - 1)
    return found, keys[found] == sought
