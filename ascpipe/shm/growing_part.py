"""Grows parts of a segment: the segment has its full size from the start, as a hole, and gets memory in steps.

So no segment is mapped again when a table grows, addresses stay, and no descriptor is sent.  The process that needs
more allocates it, a quarter of what there is at once, and stores that in the table's header afterwards.  If it dies in
between, its successor allocates the same memory again, which is idempotent.
"""
import os

from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.shm import memory, segment

MIN_STEP_BYTES = 1 << 20


def step(ready: int, wanted: int, limit: int, item_bytes: int) -> int:
    """Return how many items shall have memory, so that ``wanted`` have it and growth is rare.

    Args:
        ready: items that have memory.
        wanted: items that shall have, more than ``ready``.
        limit: items at most, ``wanted`` or more.
        item_bytes: bytes of an item.
    """
    least = -(-MIN_STEP_BYTES // item_bytes)
    return min(limit, max(wanted, ready + max(least, ready // 4)))


class GrowingPart:
    """A part of a segment that grows.

    Args:
        fd: the segment, or -1 if all of it has memory; stays the caller's.
        offset: where the part begins, in bytes, on a page.
        item_bytes: bytes of an item.
        limit: items at most.
    """

    def __init__(self, fd: int, offset: int, item_bytes: int, limit: int) -> None:
        self._fd = fd
        self._offset = offset
        self._item_bytes = item_bytes
        self._limit = limit

    def ready(self, ready: int, wanted: int) -> int:
        """Ensure memory for ``wanted`` items.

        Args:
            ready: items that have it.

        Returns:
            How many have it then; fewer than ``wanted`` if that is beyond the limit or the machine has no more.
        """
        if wanted <= ready or wanted > self._limit:
            return ready
        if self._fd < 0:
            return self._limit
        for goal in (step(ready, wanted, self._limit, self._item_bytes), wanted):  # a smaller step may still fit
            if self._fill(ready, goal):
                return goal
        return ready

    def _fill(self, ready: int, goal: int) -> bool:
        begin = self._offset + ready * self._item_bytes
        end = self._offset + goal * self._item_bytes
        what = "{} more items".format(goal - ready)
        try:
            memory.require(end - begin, what, shm_counts=os.fstat(self._fd).st_dev == _shm_device())
            segment.fill(self._fd, begin, end - begin, what)
        except OutOfSharedMemoryError:
            return False
        return True


def _shm_device() -> int:
    try:
        return os.stat(segment.SHM_DIR).st_dev
    except OSError:
        return -1
