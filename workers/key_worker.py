"""Key worker, which deduplicates frames into distinct keys, restore index and occurrences. The key worker is stateless.

::

    python -m ascpipe.workers.key_worker --channel FD --index I --generation G --title TEXT

The worker claims a frame by storing its generation with a CAS. If the worker dies, the supervisor reaps the process and
then clears the claim. Another worker repeats the unpublished work. Results depend only on ids and weights.
"""
from typing import List, Optional

import numpy as np

from ascpipe.kernels.asks import ENDED, PROVIDE
from ascpipe.kernels.dealing import cells_to_deal
from ascpipe.kernels.hashing import Spread, spread_of
from ascpipe.kernels.records import CLAIMS
from ascpipe.kernels.ring_scan import count_deduped, count_untrained, dedup_frames
from ascpipe.layout import structs
from ascpipe.layout.words import EVAL, LOCAL
from ascpipe.shm.ring import RingView
from ascpipe.workers.listeners import Listeners
from ascpipe.workers.pace import Pace, least_pause
from ascpipe.workers.runner import Attachment, StreamView, Work, Worker, command

_MOST_FRAMES = 8  # maximum number of frames per step; frames of other rings, such as evaluations, wait for them


class KeyStage:
    """Stage that deduplicates the frames of one ring.

    Args:
        generation: generation of this worker process.
        listeners: bells of processes that wait for deduplicated frames.
        spread: hash seed. It does not affect results.
    """

    def __init__(self, ring: RingView, generation: int, listeners: Listeners, spread: Spread) -> None:
        self._memory = ring.memory
        self._listeners = listeners
        self._spread = spread
        is_local = ring.channel == LOCAL  # local batches are not claimed, and are freed after training
        self._count_ahead = count_deduped if is_local else count_untrained
        self._pace = Pace(ring, "head" if is_local else "trained")
        self._look_ahead = int(ring.header["look_ahead"])
        self._claims = np.zeros(1, CLAIMS)
        self._claims["generation"] = generation
        self._columns, self._counts = np.zeros((2, ring.table_count), np.int64)
        self._ranks = int(ring.header["rank_size"])
        self._cells = np.zeros(cells_to_deal(0, self._ranks), np.int32)

    def step(self) -> int:
        """Deduplicate up to 8 unclaimed frames, oldest first, without waiting. Return the number of frames.

        Each frame is published before the next frame is claimed, so a dead worker leaves at most one claim.
        """
        claims = self._claims
        looks = self._listeners.looks
        claims["left"] = _MOST_FRAMES
        claims["done"] = 0
        while True:
            asks = dedup_frames(
                self._memory, claims, self._columns, self._counts, self._cells, self._spread, looks)
            if asks == ENDED:
                return int(claims["done"][0])
            if asks == PROVIDE:
                self._cells = np.zeros(cells_to_deal(int(claims["largest"][0]), self._ranks), np.int32)
            else:
                self._listeners.ring()

    def pause_s(self) -> Optional[float]:
        """Return the number of seconds that the worker may pause, or None if no batches of this ring are being trained.

        In a local ring, deduplicated frames are counted as ready. In other rings, untrained frames are counted.
        ``look_ahead`` of these frames are ignored, because plans need them.
        """
        return self._pace.pause_s(self._count_ahead(self._memory) - self._look_ahead)


def make_work(worker: Worker, attachment: Attachment) -> Work:
    """Return the functions that the main loop of a key worker calls. The functions handle all rings of a trainer."""
    trainer = attachment.bell(structs.BELL_TRAINER)
    spread = spread_of(attachment.hash_seed)
    stages: List[KeyStage] = []

    def serve_stream(stream: StreamView) -> None:
        if stream.channel == LOCAL:  # the pump may free its frames after deduplication
            listeners = Listeners([trainer], [attachment.bell(structs.BELL_PUMP)])
        else:  # the trainer waits for deduplicated frames of evaluations
            listeners = Listeners([trainer] if stream.channel == EVAL else [],
                                  attachment.bells_of_tables(stream.tables))
        stages.append(KeyStage(stream.ring, worker.generation, listeners, spread))

    attachment.each_stream(serve_stream)

    def step() -> int:
        done = 0
        for stage in stages:
            done += stage.step()
        return done

    return Work(step, lambda: least_pause([stage.pause_s() for stage in stages]))


main = command("key_worker", structs.BELL_KEY_WORKERS, make_work)

if __name__ == "__main__":
    main()
