"""Both ends of the ring hand-over: the real layout, atomics and bells, with no work in between.

The producer does what the pump does (copy the ids into a frame, SUBMITTED, tail, ring the key worker); the consumer
reads the ids in place, stores RETIRED and rings the pump.
"""
import os
from types import TracebackType
from typing import List, Optional, Tuple, Type

import numpy as np

from ascpipe.kernels.atomics import exchange_i64, load_acquire_i64
from ascpipe.layout import structs
from ascpipe.layout.ring_shape import frame_bytes, ring_shape
from ascpipe.layout.words import RETIRED, SUBMITTED
from ascpipe.shm import segment
from ascpipe.shm.bell import Bell
from ascpipe.shm.ring import RingView
from bench.workloads import checksum

FRAMES = 8
SPIN_US = 200  #: as the workers' default
TIMEOUT_S = 60.0

_TAIL = structs.RING.fields["tail"][1] // 8


def _never() -> bool:
    return False


class Producer:
    """The trainer's end.

    Args:
        ids: of each batch.
    """

    def __init__(self, ids: int) -> None:
        parts = ((ids, 1),)
        self._frame_bytes = structs.align(frame_bytes(parts))
        shape = ring_shape(1, FRAMES * self._frame_bytes)
        self._sizes = (shape.total_bytes, structs.SESSION_BYTES)
        self._fds = [segment.create(size, "a measurement", use_memfd=True) for size in self._sizes]
        memory = segment.map(self._fds[0], self._sizes[0])
        header = memory[:structs.RING.itemsize].view(structs.RING)[0]
        for name, value in (("frame_count", FRAMES), ("table_count", 1), ("arena_offset", shape.arena_offset),
                            ("arena_bytes", FRAMES * self._frame_bytes), ("frames_offset", shape.frames_offset),
                            ("tables_offset", shape.tables_offset)):
            header[name] = value
        self._ring, self._longs = RingView(memory), memory.view(np.int64)
        session = segment.map(self._fds[1], self._sizes[1])
        self._bell = Bell(session, structs.BELL_PUMP, SPIN_US)
        self._consumer_bell = Bell(session, structs.BELL_KEY_WORKERS)
        self._number = 0
        self._ids = ids

    def __enter__(self) -> "Producer":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        del self._ring, self._longs, self._bell, self._consumer_bell
        for fd in self._fds:
            os.close(fd)

    def descriptors(self) -> Tuple[int, ...]:
        """(descriptor, bytes) of the ring and of the session, in one row."""
        return (self._fds[0], self._sizes[0], self._fds[1], self._sizes[1])

    def put(self, ids: np.ndarray) -> None:
        """Hand one batch over; waits while all frames are full."""
        number = self._number
        if number >= FRAMES:
            self._wait_retired(number - FRAMES)
        frame = self._ring.frames[number % structs.MAX_FRAMES]
        frame["number"] = number
        frame["offset"] = int(self._ring.header["arena_offset"]) + number % FRAMES * self._frame_bytes
        part = self._ring.part(number, 0)
        part["id_count"], part["ids"] = self._ids, structs.PART.itemsize + structs.SPEC.itemsize
        np.copyto(part.array("ids", self._ids), ids)
        self._ring.store_word(number, 0, SUBMITTED)
        exchange_i64(self._longs, _TAIL, number + 1)
        self._consumer_bell.ring()
        self._number = number + 1

    def last_checksum(self) -> int:
        """What the consumer answered to the last batch; waits for it."""
        self._wait_retired(self._number - 1)
        return self._ring.part(self._number - 1, 0)["horizon"]

    def _wait_retired(self, number: int) -> None:
        if not self._bell.wait(lambda: self._ring.word(number, 0) == RETIRED, _never, TIMEOUT_S):
            raise RuntimeError("batch {} was not taken within {} s".format(number, TIMEOUT_S))


def consume(descriptors: List[int]) -> None:
    """The other end, for ever.

    Args:
        descriptors: what ``Producer.descriptors`` gave.
    """
    memory = segment.map(descriptors[0], descriptors[1])
    ring, longs = RingView(memory), memory.view(np.int64)
    session = segment.map(descriptors[2], descriptors[3])
    bell, producer_bell = Bell(session, structs.BELL_KEY_WORKERS, SPIN_US), Bell(session, structs.BELL_PUMP)
    parent, number = os.getppid(), 0
    while os.getppid() == parent:
        if not bell.wait(lambda: load_acquire_i64(longs, _TAIL) > number, _never, .5):  # noqa: B023
            continue
        part = ring.part(number, 0)
        part["horizon"] = checksum(part.array("ids", part["id_count"]))
        ring.store_word(number, 0, RETIRED)
        producer_bell.ring()
        number += 1
