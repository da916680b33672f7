"""Functions that record spans of a worker's steps for `ascpipe timeline`. A span lists the stages that batches reached
in a step.

The words before and after a step are compared, so recording has no overhead if it is disabled.
"""
import time
from typing import Any, Callable, Iterator, List, NamedTuple, Sequence, Tuple

from ascpipe.layout.structs import MAX_FRAMES
from ascpipe.layout.ticket import sequence_of
from ascpipe.layout.words import DEDUPED, LOCAL, PLANNED, RETIRED, TOUCHED, TRAIN
from ascpipe.shm.spans import SpanRing
from ascpipe.workers.runner import StreamView

_REACHED = {"key": (DEDUPED,), "table": (TOUCHED, PLANNED, RETIRED)}  # word per stage of ``spans.STAGES``


def _none(table: int) -> Any:
    """Return None, because no table has rows on disk."""


def recorded(step: Callable[[], int], spans: SpanRing, kind: str, streams: List[StreamView],
             disk_tables: Callable[[int], Any] = _none) -> Callable[[], int]:
    """Return a step function that calls ``step``, and records each call that made progress and each wait for disk rows.

    Args:
        step: step function of a worker.
        spans: file that receives the spans.
        kind: "key" or "table".
        streams: streams of the worker. More streams may be appended later.
        disk_tables: function that returns DISK_TABLE of a table. It returns None if this worker does not
            serve the table or the table has no rows on disk.
    """
    watched: List[Progress] = []
    waits: List[RowWaits] = []

    def recorded_step() -> int:
        waits.extend(RowWaits(stream, [found for found in map(disk_tables, stream.tables) if found is not None])
                     for stream in streams[len(watched):] if kind == "table" and stream.channel == TRAIN)
        watched.extend(Progress(stream, kind) for stream in streams[len(watched):])
        before = [progress.newest() for progress in watched]
        started = time.time_ns()
        done = step()
        if done:
            duration = time.time_ns() - started
            for progress, earlier in zip(watched, before):
                later = progress.newest()
                moved = [max(0, new - old) for new, old in zip(later, earlier)]  # also 0 after a revoked plan
                if any(moved):
                    spans.add(started, duration, progress.stream, progress.batches(later), moved)
        for wait in waits:
            for began, batch in wait.ended(time.time_ns()):
                spans.add(began, time.time_ns() - began, wait.stream, (0, 0, 0, batch), (0, 0, 0, 1))
        return done

    return recorded_step


class RowWaits:
    """Detector of the times at which plans of a training stream wait for rows from disk.

    Args:
        disk_tables: DISK_TABLE of each table of the stream.
    """

    def __init__(self, stream: StreamView, disk_tables: Sequence[Any]) -> None:
        self.stream = int(stream.ring.header["stream"])
        self._tickets = stream.ring.frames["ticket"]
        self._tables = disk_tables
        self._begun = [_Begun(0, 0, 0)] * len(disk_tables)

    def ended(self, now_ns: int) -> Iterator[Tuple[int, int]]:
        """Yield (start in nanoseconds since 1970, batch number) for each wait that ended since the last call."""
        for number, table in enumerate(self._tables):
            begun = self._begun[number]
            waiting = int(table["waiting"])
            if waiting == begun.waiting:
                continue
            if begun.waiting:
                yield begun.at_ns, begun.batch
            batch = sequence_of(int(self._tickets[(waiting - 1) % MAX_FRAMES])) if waiting else 0
            self._begun[number] = _Begun(waiting, now_ns, batch)


class _Begun(NamedTuple):
    waiting: int  # field of DISK_TABLE: frame number + 1, or 0
    at_ns: int
    batch: int


class Progress:
    """Observer of the progress of a stream's frames through the stages of a worker.

    Args:
        kind: "key" or "table".
    """

    def __init__(self, stream: StreamView, kind: str) -> None:
        ring = stream.ring
        self.stream = int(ring.header["stream"])
        is_served = kind == "key" or stream.channel != LOCAL
        self._ring = ring
        self._reached = _REACHED[kind] if is_served else ()

    def newest(self) -> List[int]:
        """For each stage, return the number of the newest frame that has reached the stage in at least one table."""
        ring = self._ring
        head = int(ring.header["head"])
        words = ring.tables["words"].max(axis=0).tolist()
        numbers = range(min(int(ring.header["tail"]), head + MAX_FRAMES) - 1, head - 1, -1)
        return [next((number for number in numbers if words[number % MAX_FRAMES] >= reached), head - 1)
                for reached in self._reached]

    def batches(self, frames: List[int]) -> List[int]:
        """Return the numbers of the batches in the given frames. The number of the first batch is 1."""
        tickets = self._ring.frames["ticket"]
        return [sequence_of(int(tickets[frame % MAX_FRAMES])) for frame in frames]
