"""Whose turn it is: what the tables of a training ring have to do next, by one look at all of them."""
from typing import TYPE_CHECKING, Sequence, Tuple

import numpy as np

from ascpipe.kernels.next_action import FLAGS, next_train_actions
from ascpipe.shm import layout
from ascpipe.shm.ring import RingView, read_tables
from ascpipe.workers.stage import Stage

if TYPE_CHECKING:
    from ascpipe.workers.train_stage import TrainStage


class Look:
    """Looks at some tables of a training ring.

    Args:
        ring: the ring.
        columns: of the tables in it.

    Attributes:
        flags: bool[tables, FLAGS]; what is known of each table, to be set before a look.
    """

    def __init__(self, ring: RingView, columns: Sequence[int]) -> None:
        self._ring, count = ring, len(columns)
        self._tables_at = np.array([ring.table_index(column) for column in columns], np.int64)
        self.flags = np.zeros((count, FLAGS), np.bool_)
        self._states = np.zeros((count, 3, layout.MAX_FRAMES), np.int64)
        self._heads, self._counts, self._wanted, self._actions, self._places = np.zeros((5, count), np.int64)

    def next_actions(self) -> Sequence[Tuple[int, int, int]]:
        """(table, action, number of the frame) of each that has something to do; tables count from 0, as given."""
        ring = self._ring
        read_tables(ring.longs, ring.words, ring.frames_at // 2, self._tables_at, self._states, self._heads,
                    self._counts, self._wanted)
        if not next_train_actions(self._states, self._counts, int(ring.header["look_ahead"]),
                                  int(ring.header["plan_ahead"]), self._wanted, self.flags, self._actions,
                                  self._places):
            return ()
        return [(table, int(self._actions[table]), int(self._heads[table] + self._places[table]))
                for table in np.flatnonzero(self._actions).tolist()]


class Turns(Stage):
    """The tables of one training ring, each in its turn.

    Args:
        ring: the ring.
        columns: of the tables in it.
        stages: of the same tables.
    """

    def __init__(self, ring: RingView, columns: Sequence[int], stages: Sequence["TrainStage"]) -> None:
        self._look, self._stages = Look(ring, columns), stages

    def step(self) -> int:
        """Do everything that can be done now; never waits.  Returns how many actions were carried out."""
        flags, done = self._look.flags, 0
        for table, stage in enumerate(self._stages):
            if stage.is_loading:
                done += stage.act()
            flags[table] = stage.flags()
        while True:
            acted = 0
            for table, action, number in self._look.next_actions():
                acted += self._stages[table].carry_out(action, number)
                flags[table] = self._stages[table].flags()
            if not acted:
                return done
            done += acted
