"""Records spans of a worker's steps for `ascpipe timeline`: which batches moved on in each step.

It reads the words before and after a step, so the step itself does not record; a worker without recording pays nothing.
"""
import time
from typing import Callable, List

from ascpipe.layout.structs import MAX_FRAMES
from ascpipe.layout.ticket import sequence_of
from ascpipe.layout.words import DEDUPED, LOCAL, PLANNED, RETIRED, TOUCHED
from ascpipe.shm.spans import SpanRing
from ascpipe.workers.runner import StreamView

_REACHED = {"key": (DEDUPED,), "table": (TOUCHED, PLANNED, RETIRED)}  # by the stages of ``spans.STAGES``


def recorded(step: Callable[[], int], spans: SpanRing, kind: str, streams: List[StreamView]) -> Callable[[], int]:
    """Wrap ``step``, to record a span of each call that did something.

    Args:
        step: of a worker.
        spans: of the worker.
        kind: "key" or "table".
        streams: those that it looks after; may grow.
    """
    watched: List[Progress] = []

    def recorded_step() -> int:
        watched.extend(Progress(stream, kind) for stream in streams[len(watched):])
        before = [progress.newest() for progress in watched]
        started = time.time_ns()
        done = step()
        if done:
            duration = time.time_ns() - started
            for progress, earlier in zip(watched, before):
                later = progress.newest()
                if later != earlier:
                    spans.add(started, duration, progress.stream, progress.batches(later),
                              [max(0, new - old) for new, old in zip(later, earlier)])
        return done

    return recorded_step


class Progress:
    """How far the frames of a stream have come, by the stages of a worker.

    Args:
        stream: the stream.
        kind: of the worker: "key" or "table".
    """

    def __init__(self, stream: StreamView, kind: str) -> None:
        ring = stream.ring
        self.stream = int(ring.header["stream"])
        is_served = kind == "key" or stream.channel != LOCAL
        self._ring, self._reached = ring, _REACHED[kind] if is_served else ()

    def newest(self) -> List[int]:
        """Number of the newest frame that has reached each stage, for any table."""
        ring = self._ring
        head, tail = int(ring.header["head"]), int(ring.header["tail"])
        words = ring.tables["words"].max(axis=0).tolist()
        numbers = range(min(tail, head + MAX_FRAMES) - 1, head - 1, -1)
        return [next((number for number in numbers if words[number % MAX_FRAMES] >= reached), head - 1)
                for reached in self._reached]

    def batches(self, frames: List[int]) -> List[int]:
        """Numbers of the batches in these frames, counted from 1."""
        tickets = self._ring.frames["ticket"]
        return [sequence_of(int(tickets[frame % MAX_FRAMES])) for frame in frames]
