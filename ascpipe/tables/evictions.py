"""Function that finds the keys that an eviction will remove."""
from typing import Iterator, Tuple

import numpy as np

from ascpipe.layout.words import TRAINED
from ascpipe.tables.records import Truth

_BLOCK = 1 << 18  # entries


def old_keys(truth: Truth, age: int) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """Yield (keys, timestamps), both int64[n], of the keys that ``Table.evict(age)`` will remove."""
    time = int(truth.header["time"])
    for start in range(0, int(truth.header["entries_used"]), _BLOCK):
        entries = truth.entries[start:min(start + _BLOCK, int(truth.header["entries_used"]))]
        old = entries[(entries["state"] == TRAINED) & (time - entries["timestamp"] >= age)]
        if len(old):
            yield old["key"], old["timestamp"]
