"""Functions that compute how long a worker pauses while training has enough ready batches.

Waking a worker needs more time than a small batch. So the worker pauses for half the time for which the ready batches
last, and then processes several batches at once.
"""
import time
from typing import Iterable, Optional

from ascpipe.shm.ring import RingView

MOST_S = .1  #: maximum pause, which limits the loss of speed after a wrong estimate


def pause_of(interval_s: float, ahead: int) -> float:
    """Return the number of seconds that a worker should pause.

    Args:
        interval_s: training time per batch in seconds.
        ahead: number of ready batches. 0 or less means that no batch is ready.

    Returns:
        Half the time for which the ready batches last, at most ``MOST_S``. The result is 0 if this time is shorter
        than the training time of two batches.
    """
    pause_s = min(interval_s * ahead / 2, MOST_S)
    return pause_s if pause_s >= 2 * interval_s else 0.0


def least_pause(pauses: Iterable[Optional[float]]) -> float:
    """Return the minimum of pauses in seconds. A pause of None belongs to a ring without training and is ignored."""
    least: Optional[float] = None
    for pause_s in pauses:
        if pause_s is not None and (least is None or pause_s < least):
            least = pause_s
    return least or 0.0


class Pace:
    """Meter of the speed at which training consumes the batches of a ring.

    Args:
        counter: field of the ring header that counts these batches.
    """

    def __init__(self, ring: RingView, counter: str = "trained") -> None:
        self._header = ring.header
        self._counter = counter
        self._seen_s = time.perf_counter()
        self._trained = int(self._header[self._counter])

    def pause_s(self, ahead: int) -> Optional[float]:
        """Return the number of seconds that a worker should pause while ``ahead`` batches are ready, or None if no
        batch was consumed since the last call.
        """
        trained = int(self._header[self._counter])
        taken = trained - self._trained
        if taken <= 0:
            return None
        now = time.perf_counter()
        interval_s = (now - self._seen_s) / taken
        self._seen_s = now
        self._trained = trained
        return pause_of(interval_s, ahead)
