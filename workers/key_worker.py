"""Key worker: distinct keys, restore index and occurrences of each frame.  Stateless.

    python -m ascpipe.workers.key_worker --channel FD --index I --generation G

A frame is claimed by a CAS of this worker's generation.  If the worker dies, the supervisor clears the
claim after the reap, and another worker repeats what was not published: the result is a pure function of
the ids.
"""
from typing import Callable, List

import numpy as np

from ascpipe.kernels.unique import dedup_parts, scratch_cells
from ascpipe.shm import layout
from ascpipe.shm.atomics import compare_exchange_u32, load_acquire_u32
from ascpipe.shm.bell import Bell
from ascpipe.shm.ring import RingView, unclaimed_frame
from ascpipe.words import DEDUPED, EVAL, SUBMITTED
from ascpipe.workers.runner import Attachment, StreamView, Worker, command

_ARRAYS = ("ids", "unique", "restore", "occurrences")


class KeyStage:
    """Dedups the frames of one ring.

    Args:
        ring: the ring.
        generation: of this worker process.
        listeners: bells to ring when a frame is deduped.
    """

    def __init__(self, ring: RingView, generation: int, listeners: List[Bell]) -> None:
        self._ring, self._generation, self._listeners = ring, generation, listeners
        self._cells = np.zeros(0, np.int32)

    def step(self) -> int:
        """Dedup the oldest unclaimed frame; returns 1, or 0 if there is none.  Never waits."""
        ring = self._ring
        number = unclaimed_frame(ring.longs, ring.words, ring.frames_at)
        if number < 0:
            return 0
        if not compare_exchange_u32(ring.words, ring.claim_index(number), 0, self._generation):
            return 1  # another key worker was faster; look again
        todo = [index for index in range(ring.table_count)
                if load_acquire_u32(ring.words, ring.word_index(index, number)) == SUBMITTED]
        self._dedup(number, todo)
        for index in todo:
            compare_exchange_u32(ring.words, ring.word_index(index, number), SUBMITTED, DEDUPED)
        for bell in self._listeners:
            bell.ring()
        return 1

    def _dedup(self, number: int, tables: List[int]) -> None:
        ring = self._ring
        views = [ring.part(number, index) for index in tables]
        parts = np.zeros((len(tables), 1 + len(_ARRAYS) + 1), np.int64)
        for row, part in zip(parts, views):
            row[0] = part["id_count"]
            row[1:1 + len(_ARRAYS)] = [part.index(name) for name in _ARRAYS]
        cells = scratch_cells(int(parts[:, 0].max()) if len(parts) else 0)
        if len(self._cells) < cells:
            self._cells = np.zeros(cells, np.int32)
        dedup_parts(ring.longs, ring.ints, parts, self._cells)
        for row, part in zip(parts, views):
            part["unique_count"] = int(row[-1])


def make_step(worker: Worker, attachment: Attachment) -> Callable[[], int]:
    """The step of a key worker over all rings of a trainer."""
    trainer = attachment.bell(layout.BELL_TRAINER)
    stages: List[KeyStage] = []

    def look_after(stream: StreamView) -> None:
        listeners = attachment.bells_of_tables(stream.tables)
        if stream.channel == EVAL:
            listeners.append(trainer)  # an evaluation asks as soon as its frame is deduped
        stages.append(KeyStage(stream.ring, worker.generation, listeners))

    attachment.each_stream(look_after)

    def step() -> int:
        return sum(stage.step() for stage in stages)

    return step


main = command("key_worker", layout.BELL_KEY_WORKERS, make_step)

if __name__ == "__main__":
    main()
