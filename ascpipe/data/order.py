"""Class ``BatchPlan``, which determines the records that each rank reads in each batch.

``tfops/src/input/batch_plan.h`` describes the rules, and ``tests/reference/batch_plan.py`` implements the same rules in
Python.
"""
import ctypes
from ctypes import c_int, c_int64
from typing import List, NamedTuple, Optional, Tuple

from ascpipe.data import native
from ascpipe.layout.calls import BatchPlanArguments

ENDLESS = -1  #: number of epochs of an endless run


class Position(NamedTuple):
    """Position of a training run in the sequence of records.

    Attributes:
        epoch: epoch, counted from 0.
        consumed: number of records that all ranks together have read in the epoch.
    """

    epoch: int
    consumed: int


class BatchPlan:
    """Division of records into batches. All methods are pure functions."""

    def __init__(self, records: int, batch_size: int, *, ranks: int = 1, epochs: int = 1, seed: Optional[int] = None,
                 drop_remainder: bool = False, window: int = 0) -> None:
        """Describe a plan. ``moved`` and ``batch`` check the arguments.

        Args:
            records: number of records of all files together.
            batch_size: number of records of a batch of one rank.
            ranks: number of ranks.
            epochs: number of epochs, or ``ENDLESS``.
            seed: seed of the shuffle, modulo 2^64; None keeps the order of the files.
            drop_remainder: whether an epoch has only full batches.
            window: number of consecutive records that are shuffled among each other, or 0 for all records.
        """
        self._plan = BatchPlanArguments(records, (seed or 0) % 2 ** 64, epochs, batch_size, ranks,
                                        int(seed is not None), int(drop_remainder), window)

    def moved(self, position: Position, batches: int) -> Optional[Position]:
        """Return the position ``batches`` batches after ``position``, or None if all epochs have ended.

        At least one more batch follows the returned position.

        Raises:
            BatchPlanError: an argument is not allowed, or an epoch has no batch.
        """
        moved = native.Position(*position)
        is_end = c_int()
        native.call("asc_data_plan_move", ctypes.byref(self._plan), batches, moved, ctypes.byref(is_end))
        return None if is_end.value else Position(*moved)

    def batch(self, position: Position, rank: int) -> Tuple[List[int], Position]:
        """Return the record numbers of one rank's batch, and the position after the batches of all ranks.

        Raises:
            BatchPlanError: all epochs have ended, or an argument is not allowed.
        """
        after = native.Position(*position)
        count = c_int64()
        size = min(self._plan.batch_size, self._plan.records)  # a wrong size is rejected before memory is written
        numbers = (c_int64 * max(size, 0))()
        native.call("asc_data_plan_batch", ctypes.byref(self._plan), rank, after, numbers, ctypes.byref(count))
        return numbers[:count.value], Position(*after)

    def permuted(self, epoch: int, first: int, count: int) -> List[int]:
        """Return ``count`` record numbers from the shuffled sequence of an epoch, starting at position ``first``.

        Raises:
            BatchPlanError: the sequence has no such positions.
        """
        numbers = (c_int64 * max(count, 0))()
        native.call("asc_data_permutation", ctypes.byref(self._plan), epoch, first, count, numbers)
        return list(numbers)
