"""Stage that answers the evaluation stream of one table. The stage finds slots and home rows of keys, and changes
nothing.
"""
from typing import Callable, Sequence

import numpy as np

from ascpipe.kernels import next_action
from ascpipe.layout.words import ANSWERED, PLAN_OK, RETIRED
from ascpipe.shm.ring import RingView, TableInRing
from ascpipe.workers.stage import Bells, Stage


class EvalStage(Stage):
    """Stage of one table in its evaluation stream.

    Args:
        resolve: ``Table.resolve`` of the table.
        is_readable: function that returns whether shared memory contains the state of the table after the last trained
            step.
    """

    def __init__(self, resolve: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], None], at: TableInRing,
                 is_readable: Callable[[], bool], bells: Bells) -> None:
        self._resolve = resolve
        self._is_readable = is_readable
        self._bells = bells
        self._ring, self._column = at

    def act(self) -> bool:
        """Answer or release the next evaluation frame; see ``Stage.act``."""
        seen = self._ring.look(self._column)
        # checked after `look`, because the answer must not be older than the request
        action, index = next_action.next_eval_action(seen.turn, self._is_readable())
        if action == next_action.NOTHING:
            return False
        number = seen.head + index
        if action == next_action.ANSWER:
            self._answer(number)
            self._bells.trainer()
        else:
            self._ring.store_word(number, self._column, RETIRED)  # SYNC retired: store
            self._bells.pump()
        return True

    def _answer(self, number: int) -> None:
        part = self._ring.part(number, self._column)
        n = part["unique_count"]
        self._resolve(part.array("unique", n), part.array("slots", n), part.array("homes", n),
                      part.array("frequencies", n))
        part["status"] = PLAN_OK
        self._ring.store_word(number, self._column, ANSWERED)  # SYNC keys-answered: store


class Questions(Stage):
    """Stage of all tables of one evaluation ring. If the ring is empty, one check is enough for all tables."""

    def __init__(self, ring: RingView, stages: Sequence[EvalStage]) -> None:
        self._ring = ring
        self._stages = stages

    def step(self) -> int:
        """Perform all possible actions of the tables; see ``Stage.step``."""
        return 0 if self._ring.is_empty() else sum(stage.step() for stage in self._stages)
