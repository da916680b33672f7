"""Which rows leave the device of a table with home rows: its victim order, and who has which slot in the view."""
from typing import Optional

import numpy as np

from ascpipe.kernels.swaps import idle_slots, keep_idle, mark_slots, take_farthest
from ascpipe.kernels.victims import VictimOrder
from ascpipe.tables import lazy
from ascpipe.tables.state import PLACES


class Swaps:
    """Victims of one table; ``rebuild`` comes before anything else.

    Args:
        device_rows: slots.
        masks, view32: uint64[capacity, 4], int32[capacity, 8]; the view, kept by the table.

    Attributes:
        slot_entries: int32[device rows]; the view: entry of each slot, -1 = empty.  Kept by the table.
    """

    def __init__(self, device_rows: int, masks: np.ndarray, view32: np.ndarray) -> None:
        self.slot_entries = np.full(device_rows, -1, np.int32)
        self._masks, self._view32 = masks, view32
        self._order: Optional[VictimOrder] = None  # not before the first victim is wanted
        self._marks = lazy.zeros(device_rows, np.uint8)
        self._next_uses = lazy.zeros(device_rows, np.uint8)
        self._ends = np.zeros(65, np.int64)

    def rebuild(self) -> None:
        """Start again from ``slot_entries``; a table whose device has room for all its rows pays for no order."""
        self._order = None

    def release(self, held: np.ndarray, unplanned: int) -> None:
        """Put the slots of those entries in the order that no frame to be planned needs; others are passed over.

        Args:
            held: int32[n]; entry numbers.
            unplanned: bits of the frames that are still to be planned.
        """
        if self._order is not None:
            self._put(self._order, held, unplanned)

    def _put(self, order: VictimOrder, held: np.ndarray, unplanned: int) -> None:
        slots, scores = np.empty(len(held), np.int32), np.empty(len(held), np.int32)
        idle = idle_slots(held, np.uint64(unplanned), self._masks, self._view32, slots, scores)
        order.put(slots[:idle], scores[:idle])

    def choose(self, n: int, held: np.ndarray, slots: np.ndarray, future: int, oldest: int) -> np.ndarray:
        """The slots of n victims: int32[n].  There are so many.

        First rows that no other frame needs, the least frequent first, then the lowest slot; then those whose
        next use is farthest, then the lowest slot.

        Args:
            n: how many.
            held: int32[keys]; entry numbers of the batch.
            slots: int32[keys]; slots of its keys that are on the device, -1 for the others.
            future: bits of the other frames that are still to be planned.
            oldest: number of the oldest frame in the window.
        """
        order = self._order
        if order is None:
            order = self._order = VictimOrder(len(self.slot_entries))
            self._put(order, self.slot_entries[self.slot_entries >= 0], future)
        else:
            # a key of the batch that is not admitted, but has a row on the device, may lose its slot at once
            self._put(order, held[slots < 0], future)
        mark_slots(slots, 1, self._marks)
        victims = np.empty(n, np.int32)
        chosen = 0
        while chosen < n and order.count:
            candidates = order.take(n - chosen)
            chosen += keep_idle(candidates, np.uint64(future), self._masks, self._marks, self.slot_entries,
                                victims[chosen:])
        if chosen < n:
            chosen += take_farthest(np.uint64(future), np.uint64(oldest % PLACES), self._masks, self._marks,
                                    self.slot_entries, self._next_uses, self._ends, victims[chosen:])
        mark_slots(slots, 0, self._marks)
        if chosen < n:
            raise AssertionError("{} victims of {}".format(chosen, n))
        return victims
