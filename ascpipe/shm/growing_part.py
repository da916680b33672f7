"""Class ``GrowingPart``: a part of a segment for which memory is allocated in steps. The size of the segment is fixed.

So a growing table needs no new mapping, address or descriptor. The process that needs memory usually adds a quarter of
the current size, then stores the new size in the table's header. If the process dies in between, the restarted process
repeats the allocation, which is idempotent.
"""
import os

from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.shm import memory, segment

MIN_STEP_BYTES = 1 << 20


def step(ready: int, wanted: int, limit: int, item_bytes: int) -> int:
    """Return the number of items for which memory should be allocated. The returned number may exceed ``wanted``, so
    that few allocations are necessary.

    Args:
        ready: number of items that have memory.
        wanted: number of needed items, more than ``ready``.
        limit: maximum number of items, at least ``wanted``.
        item_bytes: bytes per item.
    """
    least = -(-MIN_STEP_BYTES // item_bytes)
    return min(limit, max(wanted, ready + max(least, ready // 4)))


class GrowingPart:
    """Part of a segment, for which memory is allocated in steps.

    Args:
        fd: descriptor of the segment, or -1 if the whole segment has memory. The caller owns the descriptor.
        offset: start of the part in bytes, a multiple of the page size.
        item_bytes: bytes per item.
        limit: maximum number of items.
    """

    def __init__(self, fd: int, offset: int, item_bytes: int, limit: int) -> None:
        self._fd = fd
        self._offset = offset
        self._item_bytes = item_bytes
        self._limit = limit

    def ready(self, ready: int, wanted: int) -> int:
        """Allocate memory for ``wanted`` items. The first ``ready`` items already have memory.

        Returns:
            The new number of items that have memory. It is less than ``wanted`` if ``wanted`` exceeds the limit
            or memory is exhausted.
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
