"""What a table worker does with the evaluation stream of one table: answer with slots, change nothing."""
from typing import Callable, Sequence

import numpy as np

from ascpipe.kernels import next_action
from ascpipe.kernels.atomics import exchange_u32
from ascpipe.layout.words import ANSWERED, PLAN_OK, RETIRED
from ascpipe.shm.ring import Place, RingView
from ascpipe.workers.cuts import Bells
from ascpipe.workers.stage import Stage


class EvalStage(Stage):
    """One table in its evaluation stream.

    Args:
        resolve: as ``Table.resolve``, of the table.
        place: the table's column in the ring of the stream.
        is_readable: says whether the truth is the state after the last trained step.
        bells: whom to wake.
    """

    def __init__(self, resolve: Callable[[np.ndarray, np.ndarray], None], place: Place,
                 is_readable: Callable[[], bool], bells: Bells) -> None:
        self._resolve, self._is_readable, self._bells = resolve, is_readable, bells
        self._ring, self._column = place

    def act(self) -> bool:
        """Carry out the next action; False if there is none, or it must wait."""
        head, count, (words, closed, _) = self._ring.look(self._column)
        # the readers' rule is looked at after the question was seen
        action, at = next_action.next_eval_action(words, closed, count, self._is_readable())
        if action == next_action.NOTHING:
            return False
        number = head + at
        if action == next_action.ANSWER:
            self._answer(number)
            self._bells.trainer()
        else:
            self._store_word(number, RETIRED)
            self._bells.pump()
        return True

    def _answer(self, number: int) -> None:
        part = self._ring.part(number, self._column)
        n = part["unique_count"]
        self._resolve(part.array("unique", n), part.array("slots", n))
        part["status"] = PLAN_OK
        self._store_word(number, ANSWERED)

    def _store_word(self, number: int, word: int) -> None:
        exchange_u32(self._ring.words, self._ring.word_index(self._column, number), word)


class Questions(Stage):
    """The tables of one evaluation ring; most of the time nobody evaluates.

    Args:
        ring: the ring.
        stages: of tables in it.
    """

    def __init__(self, ring: RingView, stages: Sequence[EvalStage]) -> None:
        self._ring, self._stages = ring, stages

    def step(self) -> int:
        """Do everything that can be done now; never waits.  Returns how many actions were carried out."""
        return 0 if self._ring.is_empty() else sum(stage.step() for stage in self._stages)
