"""Class ``KeyIndex``, which owns the memory of a key index.

The class reserves address space for the maximum number of keys. Memory is committed as the index grows.
"""
import numpy as np

from ascpipe.kernels.hashing import Spread
from ascpipe.kernels.index import LINE_LOAD, rebuild_index
from ascpipe.kernels.records import EXTENT, LINE, LINE_KEYS, Index
from ascpipe.tables import lazy_arrays

_REBUILT_LOAD = 3.75  # keys per line after a rebuild; the index grows at 16/15 of this load


class KeyIndex:
    """Key index, which is initially empty.

    Args:
        spread: hash seed that determines the lines of keys.
        most: maximum number of keys.

    Attributes:
        index: argument for kernels. ``clear`` and ``rebuild`` replace its lines but not its extent.
    """

    def __init__(self, spread: Spread, most: int) -> None:
        extent = np.zeros(1, EXTENT)
        extent["spread"] = spread
        # largest index after growth by an eighth, plus lines for the longest possible search
        self._room = most // LINE_LOAD * 9 // 8 + most // LINE_KEYS + 4
        self.index = Index(extent, lazy_arrays.zeros(0, LINE))
        self.clear()

    @property
    def lines(self) -> int:
        """Return the number of home lines. The index also has a few overflow lines, which are not counted."""
        return int(self.index.extent["lines"][0])

    @property
    def nbytes(self) -> int:
        """Return the size of the home lines in bytes."""
        return self.lines * LINE.itemsize

    def clear(self, count: int = 0) -> None:
        """Remove all keys, and reserve lines for ``count`` keys."""
        extent = self.index.extent
        self.index = Index(extent, lazy_arrays.zeros(0, LINE))  # free the old lines first
        self.index = Index(extent, lazy_arrays.zeros(self._room, LINE))
        extent["lines_at"] = self.index.lines.ctypes.data
        extent["room"] = self._room
        extent["lines"] = extent["lines_before"] = max(1, -int(-count // _REBUILT_LOAD))
        extent["keys"] = extent["frontier"] = extent["unmoved"] = 0

    def rebuild(self, count: int, used: int, entries: np.ndarray) -> int:
        """Remove all keys, then index the entries that have a key.

        Args:
            count: upper limit of the number of these entries.
            used, entries: see ``rebuild_index``.

        Returns:
            Number of indexed keys.
        """
        self.clear(count)
        return int(rebuild_index(used, entries, self.index))
