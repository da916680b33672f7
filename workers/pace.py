"""How long a worker may pause while training has enough batches ahead.

With small batches, waking a worker for each of them takes longer than its work.  So it lets work gather: it pauses for
half the time in which training uses up what is ready, and then does the work of several batches at once.
"""
import time
from typing import Iterable, Optional

from ascpipe.shm.ring import RingView

MOST_S = .1  #: limits what a pace that was misjudged can do to the speed


def pause_of(interval_s: float, ahead: int) -> float:
    """Seconds to pause.

    Args:
        interval_s: seconds in which training takes a batch.
        ahead: batches that are ready for it; 0 or less: none.

    Returns:
        Half the time that they last, at most ``MOST_S``; 0 if fewer than two batches would gather in that time.
    """
    pause_s = min(interval_s * ahead / 2, MOST_S)
    return pause_s if pause_s >= 2 * interval_s else 0.0


def least_pause(pauses: Iterable[Optional[float]]) -> float:
    """Seconds to pause, of what each ring allows; None of one that does not train."""
    least: Optional[float] = None
    for pause_s in pauses:
        if pause_s is not None and (least is None or pause_s < least):
            least = pause_s
    return least or 0.0


class Pace:
    """How fast training takes the batches of a ring.

    Args:
        ring: of a training stream, or a local one.
        counter: field of its header that counts these batches.
    """

    def __init__(self, ring: RingView, counter: str = "trained") -> None:
        self._header = ring.header
        self._counter = counter
        self._seen_s = time.perf_counter()
        self._trained = int(self._header[self._counter])

    def pause_s(self, ahead: int) -> Optional[float]:
        """Seconds to pause while ``ahead`` batches are ready; None if training has taken none since the last call."""
        trained = int(self._header[self._counter])
        taken = trained - self._trained
        if taken <= 0:
            return None
        now = time.perf_counter()
        interval_s = (now - self._seen_s) / taken
        self._seen_s = now
        self._trained = trained
        return pause_of(interval_s, ahead)
