"""The key worker deduplicates frames: distinct keys, restore index, occurrences.  Stateless.

    python -m ascpipe.workers.key_worker --channel FD --index I --generation G --title TEXT

It claims a frame by a CAS of its generation.  If it dies, the supervisor clears the claim after the reap, and another
worker repeats what was not published: the result is a pure function of the ids.
"""
from typing import Callable, List, Optional

import numpy as np

from ascpipe.kernels.hashing import Spread, spread_of
from ascpipe.kernels.ring_scan import claim_frame, count_untrained, dedup_parts, publish_deduped, submitted_parts
from ascpipe.kernels.unique import scratch_cells
from ascpipe.layout import structs
from ascpipe.layout.words import EVAL
from ascpipe.shm.ring import RingView
from ascpipe.workers.pace import Pace, least_pause
from ascpipe.workers.runner import Attachment, StreamView, Work, Worker, command


class KeyStage:
    """Deduplicates the frames of one ring.

    Args:
        ring: the ring.
        generation: of this worker process.
        listeners: what rings those that wait for a frame to be deduplicated.
        spread: that the time of a search depends on, and no result.
    """

    def __init__(self, ring: RingView, generation: int, listeners: List[Callable[[], None]], spread: Spread) -> None:
        self._memory, self._generation, self._listeners, self._spread = ring.memory, generation, listeners, spread
        self._pace = Pace(ring)
        self._columns, self._counts = np.zeros((2, ring.table_count), np.int64)
        self._cells = np.zeros(0, np.int32)

    def step(self) -> int:
        """Deduplicate the oldest unclaimed frame; returns 1, or 0 if there is none.  Never waits."""
        number = claim_frame(self._memory, self._generation)
        if number < 0:
            return 0
        parts = self._dedup(number)
        publish_deduped(self._memory, number, self._columns[:parts], self._counts[:parts])
        for ring in self._listeners:
            ring()
        return 1

    def pause_s(self) -> Optional[float]:
        """Seconds in which its work may gather; None if this ring does not train."""
        return self._pace.pause_s(count_untrained(self._memory))

    def _dedup(self, number: int) -> int:
        """Deduplicate the parts of a frame that are SUBMITTED; returns how many there are."""
        parts, largest = submitted_parts(self._memory, number, self._columns)
        cells = scratch_cells(int(largest))
        if len(self._cells) < cells:
            self._cells = np.zeros(cells, np.int32)
        dedup_parts(self._memory, number, self._columns[:parts], self._cells, self._spread, self._counts[:parts])
        return int(parts)


def make_work(worker: Worker, attachment: Attachment) -> Work:
    """The work of a key worker over all rings of a trainer."""
    trainer = attachment.bell(structs.BELL_TRAINER)
    spread = spread_of(attachment.hash_seed)
    stages: List[KeyStage] = []

    def look_after(stream: StreamView) -> None:
        listeners = [bell.ring_unless_pausing for bell in attachment.bells_of_tables(stream.tables)]
        if stream.channel == EVAL:
            listeners.append(trainer.ring)  # an evaluation asks as soon as its frame is deduplicated
        stages.append(KeyStage(stream.ring, worker.generation, listeners, spread))

    attachment.each_stream(look_after)

    def step() -> int:
        return sum(stage.step() for stage in stages)

    return Work(step, lambda: least_pause(stage.pause_s() for stage in stages))


main = command("key_worker", structs.BELL_KEY_WORKERS, make_work)

if __name__ == "__main__":
    main()
