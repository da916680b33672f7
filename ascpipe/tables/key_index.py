"""Owns the key index of a table, which grows with it.

It doubles its lines when more than three of four lanes would be used; old and new lines are alive together while the
keys move, which takes 51.2 bytes per key at the worst.
"""
import numpy as np

from ascpipe.kernels.hashing import Spread
from ascpipe.kernels.index import grow_index, rebuild_index
from ascpipe.kernels.records import LINE, LINE_KEYS


def lines_for(count: int) -> int:
    """Lines of an index for ``count`` keys: a power of two; at most three of four lanes are used."""
    return 1 << max(0, -(-4 * count // (3 * LINE_KEYS)) - 1).bit_length()


class KeyIndex:
    """A key index that grows; it is empty at first.

    Args:
        spread: that the lines of its keys depend on.
        count: keys that it must be able to hold before it grows.

    Attributes:
        lines: LINE[a power of two]; what the kernels take.  ``reserve`` and ``rebuild`` replace them.
    """

    def __init__(self, spread: Spread, count: int = 0) -> None:
        self.spread = spread
        self.lines = _memory(lines_for(count))
        self.lines["count"] = 0

    @property
    def limit(self) -> int:
        """How many keys fit before it grows."""
        return 3 * LINE_KEYS * len(self.lines) // 4

    @property
    def nbytes(self) -> int:
        """Bytes of its lines."""
        return self.lines.nbytes

    def reserve(self, count: int) -> None:
        """Grow until ``count`` keys fit; the keys it holds stay.  Call it before keys are inserted."""
        if count > self.limit:
            lines = _memory(lines_for(count))
            grow_index(self.lines, lines, self.spread)
            self.lines = lines

    def rebuild(self, count: int, used: int, entries: np.ndarray) -> int:
        """Forget everything, then index the entries that hold a key.

        Args:
            count: how many these are, at most.
            used, entries: as those of ``rebuild_index``.

        Returns:
            How many keys it holds.
        """
        if count > self.limit:
            self.lines = _memory(lines_for(count))
        return int(rebuild_index(used, entries, self.lines, self.spread))


def _memory(lines: int) -> np.ndarray:
    """LINE[lines], each a cache line, of any contents."""
    # not zeros(): numpy asks for huge pages for large arrays it does not clear
    room = np.empty((lines + 1) * LINE.itemsize, np.uint8)
    first = -room.ctypes.data % LINE.itemsize
    return room[first:first + lines * LINE.itemsize].view(LINE)
