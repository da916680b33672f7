"""Owns the memory of a key index: address space for all keys that there may ever be, taken as the index grows."""
import numpy as np

from ascpipe.kernels.hashing import Spread
from ascpipe.kernels.index import LINE_LOAD, rebuild_index
from ascpipe.kernels.records import EXTENT, LINE, LINE_KEYS, Index
from ascpipe.tables import lazy_arrays

_REBUILT_LOAD = 3.75  # keys for each line of an index that was rebuilt: 16 of 15 more, before it grows


class KeyIndex:
    """A key index; it is empty at first.

    Args:
        spread: that the lines of its keys depend on.
        most: keys that it may ever hold.

    Attributes:
        index: what kernels take; ``clear`` and ``rebuild`` replace its lines, never its extent.
    """

    def __init__(self, spread: Spread, most: int) -> None:
        extent = np.zeros(1, EXTENT)
        extent["spread"] = spread
        # the largest one that grew by an eighth, and behind it every search that may run on
        self._room = most // LINE_LOAD * 9 // 8 + most // LINE_KEYS + 4
        self.index = Index(extent, lazy_arrays.zeros(0, LINE))
        self.clear()

    @property
    def lines(self) -> int:
        """How many lines it has; the last keys may be in some more."""
        return int(self.index.extent["lines"][0])

    @property
    def nbytes(self) -> int:
        """Bytes of its lines."""
        return self.lines * LINE.itemsize

    def clear(self, count: int = 0) -> None:
        """Forget everything; make room for ``count`` keys."""
        extent = self.index.extent
        self.index = Index(extent, lazy_arrays.zeros(0, LINE))  # before there are new lines: both would take memory
        self.index = Index(extent, lazy_arrays.zeros(self._room, LINE))
        extent["lines_at"] = self.index.lines.ctypes.data
        extent["room"] = self._room
        extent["lines"] = extent["lines_before"] = max(1, -int(-count // _REBUILT_LOAD))
        extent["keys"] = extent["frontier"] = extent["unmoved"] = 0

    def rebuild(self, count: int, used: int, entries: np.ndarray) -> int:
        """Forget everything, then index the entries that hold a key.

        Args:
            count: how many these are, at most.
            used, entries: as those of ``rebuild_index``.

        Returns:
            How many keys it holds.
        """
        self.clear(count)
        return int(rebuild_index(used, entries, self.index))
