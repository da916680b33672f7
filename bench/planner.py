"""Planner of a table worker: its compiled steps on a ring and a table in ordinary memory, without rows."""
from typing import Callable, List, Sequence, Tuple

import numpy as np

from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.next_action import NOTHING, PLAN, RETIRE, TOUCH
from ascpipe.kernels.records import TURN
from ascpipe.kernels.ring_scan import dedup_parts
from ascpipe.kernels.ring_steps import LEAVE, assign_frames, leave_frames, plan_frames, touch_frames
from ascpipe.kernels.unique import scratch_cells
from ascpipe.layout import structs
from ascpipe.layout.ring_shape import PART_ARRAYS, frame_bytes, ring_shape
from ascpipe.layout.words import PLAN_OK, TRAINED
from ascpipe.shm.ring import PartView, RingView
from ascpipe.tables.records import Truth
from ascpipe.tables.table import Table
from bench import workloads

PLAN_AHEAD = 2  #: number of unretired plans while the next plan is made
WINDOW = 4  #: number of touched batches after the planned batch
_FILLED_AT_ONCE = 10 ** 6


def empty_truth(keys: int, device_rows: int, *, home_rows: int) -> Truth:
    """Return the memory of an empty table for a number of keys. If ``home_rows`` is 0, the table has device
    rows only.
    """
    headers = np.zeros(1, structs.TABLE)
    header = headers[0]
    header["device_rows"] = device_rows
    header["home_capacity"] = home_rows
    header["entry_capacity"] = keys
    header["access_threshold"] = header["eviction_threshold"] = -1
    header["counting"] = header["faae_coefficient"] = 1
    header["entries_ready"] = keys
    header["homes_ready"] = home_rows
    return Truth(header, headers.ctypes.data, np.zeros(keys, structs.ENTRY), np.full(device_rows, -1, np.int32),
                 _has_memory, _has_memory)


def _has_memory(count: int) -> bool:
    return True


class Batches:
    """Ring of one table with the maximum number of frames. Steps are executed one by one.

    Args:
        truth: truth of the table. The table is rebuilt from it.
        most_keys: maximum number of keys in a batch.
    """

    def __init__(self, truth: Truth, most_keys: int) -> None:
        self._frame_bytes = structs.align(frame_bytes(((most_keys, 0),)))
        shape = ring_shape(1, structs.MAX_FRAMES * self._frame_bytes)
        self._memory = np.zeros(shape.total_bytes, np.uint8)
        self._arena = shape.arena_offset
        header = self._memory[:structs.RING.itemsize].view(structs.RING)[0]
        header["frame_count"] = structs.MAX_FRAMES
        header["table_count"] = 1
        header["frames_offset"] = shape.frames_offset
        header["tables_offset"] = shape.tables_offset
        self._ring = RingView(self._memory)
        self._most_keys = most_keys
        self._table = Table(truth, spread_of(workloads.HASH_SEED))
        self._table.rebuild((), ())
        self._turns = np.zeros(1, TURN)
        self._turns["planner_at"] = self._table.planner_at

    def touch(self, number: int, unique: np.ndarray, occurrences: np.ndarray) -> None:
        """Touch a batch: int64[n] distinct keys and int32[n] occurrences. Raise ``RuntimeError`` if there are too few
        entries.
        """
        part = self._part(number, len(unique))
        part.array("unique", len(unique))[:] = unique
        part.array("occurrences", len(unique))[:] = occurrences
        self._take(touch_frames, TOUCH, number)

    def dedup(self, numbers: Sequence[int], batches: Sequence[np.ndarray]) -> Callable[[], object]:
        """Return a function that deduplicates batches of int64[n] each, like a key worker. The ring has copies of the
        batches.
        """
        for number, ids in zip(numbers, batches):
            self._part(number, len(ids)).array("ids", len(ids))[:] = ids
        columns = np.zeros(1, np.int64)
        counts = np.zeros(1, np.int64)
        cells = np.empty(scratch_cells(self._most_keys), np.int32)
        spread = spread_of(workloads.HASH_SEED)
        return lambda: [dedup_parts(self._memory, number, columns, cells, spread, counts) for number in numbers]

    def _part(self, number: int, count: int) -> PartView:
        """Return the part of a new frame with ``count`` keys."""
        frame = self._ring.frame(number)
        frame["number"] = number
        frame["ticket"] = number + 1
        frame["offset"] = self._arena + number % structs.MAX_FRAMES * self._frame_bytes
        part = self._ring.part(number, 0)
        offset = structs.PART.itemsize
        for name, size in PART_ARRAYS:
            part[name] = offset
            offset += structs.align(size * self._most_keys)
        part["id_count"] = part["unique_count"] = count
        return part

    def plan(self, number: int) -> PartView:
        """Plan a touched batch, and return its part. Raise ``RuntimeError`` if there is no plan."""
        self._take(plan_frames, PLAN, number)
        part = self._ring.part(number, 0)
        if part["status"] != PLAN_OK:
            raise RuntimeError("batch {} has no plan: status {}, need {}".format(number, part["status"], part["need"]))
        return part

    def finish(self, number: int) -> None:
        """Retire a batch, like a worker after the step of the batch."""
        self._take(assign_frames, RETIRE, number)
        self._turns["action"] = LEAVE
        leave_frames(self._turns, NOTHING)

    def _take(self, step: Callable[[np.ndarray, np.ndarray], Tuple[int, int]], action: int, number: int) -> None:
        turn = self._turns[0]
        turn["action"] = action
        turn["number"] = number
        turn["lacks"] = 0
        turn["done"] = 0
        while not step(self._memory, self._turns)[0]:
            if not self._table.provide(int(turn["lacks"]), self._ring.part(number, 0)["unique_count"]):
                raise RuntimeError("batch {} found no entries".format(number))
            turn["lacks"] = 0


class Planner:
    """Table with ``keys`` trained keys: ``workloads.scramble`` of 0, 1, 2, ...

    Args:
        keys: number of trained keys.
        device_rows: number of device rows. The rows of the first keys are on the device.
        at_home: whether every key has a home row. Otherwise ``device_rows`` equals ``keys``.
        most_keys: maximum number of keys in a batch.
    """

    def __init__(self, keys: int, device_rows: int, *, at_home: bool, most_keys: int) -> None:
        truth = empty_truth(keys, device_rows, home_rows=keys if at_home else 0)
        for start in range(0, keys, _FILLED_AT_ONCE):
            number = np.arange(start, min(start + _FILLED_AT_ONCE, keys))
            entries = truth.entries[start:start + len(number)]
            entries["key"] = workloads.scramble(number)
            entries["state"] = TRAINED
            entries["home"] = number if at_home else -1
            entries["slot"] = np.where(number < device_rows, number, -1)
        truth.slot_entries[:] = np.arange(device_rows)
        truth.header["entries_used"] = keys
        self._batches = Batches(truth, most_keys)
        self._next = 0

    def step(self, batches: List[np.ndarray]) -> Callable[[], object]:
        """Return a function that, for each of ``batches``, touches one more batch, plans one batch and retires one
        batch.
        """
        arrays: List[Tuple[np.ndarray, np.ndarray]] = [(unique, np.ones(len(unique), np.int32)) for unique in batches]

        def call() -> None:
            for unique, occurrences in arrays:
                number = self._next
                self._batches.touch(number, unique, occurrences)
                if number >= WINDOW:
                    self._batches.plan(number - WINDOW)
                if number >= WINDOW + PLAN_AHEAD:
                    self._batches.finish(number - WINDOW - PLAN_AHEAD)
                self._next += 1

        return call
