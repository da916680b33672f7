"""Bells that a compiled loop looks at when it has published, and returns to have rung."""
from typing import Sequence

import numpy as np

from ascpipe.kernels.records import LISTENER
from ascpipe.shm.bell import Bell


class Listeners:
    """Bells of those that wait for what a worker publishes.

    Args:
        waiting: rung whenever their owners are not awake.
        working: not rung while their owners pause.

    Attributes:
        looks: LISTENER[n]; for a compiled loop, which stores in it what must be rung.
    """

    def __init__(self, waiting: Sequence[Bell], working: Sequence[Bell]) -> None:
        self._rings = [bell.ring for bell in waiting] + [bell.ring_unless_pausing for bell in working]
        self.looks = np.zeros(len(self._rings), LISTENER)
        self.looks["bell_at"] = [bell.at for bell in (*waiting, *working)]
        self.looks["may_pause"][len(waiting):] = 1

    def ring(self) -> None:
        """Ring those that must be."""
        for index in np.flatnonzero(self.looks["waits"]).tolist():
            self.looks["waits"][index] = 0
            self._rings[index]()
