"""Bells that a compiled loop checks after it has published data. If a bell must be rung, the loop returns to Python."""
from typing import Sequence

import numpy as np

from ascpipe.kernels.records import LISTENER
from ascpipe.shm.bell import Bell


class Listeners:
    """Bells of processes that wait for data published by a worker.

    Args:
        waiting: bells to ring if their owners sleep or pause.
        working: bells to ring only if their owners sleep.

    Attributes:
        looks: LISTENER[n], in which a compiled loop marks the bells to ring.
    """

    def __init__(self, waiting: Sequence[Bell], working: Sequence[Bell]) -> None:
        self._rings = [bell.ring for bell in waiting] + [bell.ring_unless_pausing for bell in working]
        self.looks = np.zeros(len(self._rings), LISTENER)
        self.looks["bell_at"] = [bell.at for bell in (*waiting, *working)]
        self.looks["may_pause"][len(waiting):] = 1

    def ring(self) -> None:
        """Ring the marked bells, and clear the marks."""
        for index in np.flatnonzero(self.looks["waits"]).tolist():
            self.looks["waits"][index] = 0
            self._rings[index]()
