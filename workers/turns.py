"""Whose turn it is: what the tables of a training ring do next, all of them at once.

One look says what each table has to do.  Those that have the same step of a batch's life to do, retire, plan or
touch, do it in one compiled call; then one call stores their state words, and the bells ring once.  What is rare, or
needs more memory, a table does alone: ``ascpipe.workers.train_stage``.
"""
from typing import TYPE_CHECKING, Sequence

import numpy as np

from ascpipe.kernels.next_action import FLAGS, IS_LOADING, NOTHING, PLAN, RETIRE, TOUCH
from ascpipe.layout import structs
from ascpipe.layout.words import PLANNED, RETIRED, TOUCHED
from ascpipe.shm.ring import RingView
from ascpipe.workers.frames import (
    ALONE,
    LEAVE,
    assign_frames,
    leave_frames,
    look_at_tables,
    plan_frames,
    store_words,
    touch_frames,
)
from ascpipe.workers.stage import Stage

if TYPE_CHECKING:
    from ascpipe.workers.cuts import Bells
    from ascpipe.workers.train_stage import TrainStage


class Look:
    """Looks at some tables of a training ring.

    Args:
        ring: the ring.
        columns: of the tables in it.
        states: int64[tables]; addresses of the rows of ``ascpipe.tables.state``, which outlive this.

    Attributes:
        tables_at: int64[tables]; index of each table's RING_TABLE in the ring's ``longs``.
        flags: bool[tables, FLAGS]; what was known of each table before the look.
        actions, numbers: int64[tables]; what each has to do, and with which frame.
        loading: how many are granted to the trainer.
    """

    def __init__(self, ring: RingView, columns: Sequence[int], states: np.ndarray) -> None:
        self._ring, self._table_states, count = ring, states, len(columns)
        self.tables_at = np.array([ring.table_index(column) for column in columns], np.int64)
        self.flags = np.zeros((count, FLAGS), np.bool_)
        self.loading = 0
        self._frames = np.zeros((count, 3, structs.MAX_FRAMES), np.int64)
        self._counts = np.zeros((4, count), np.int64)
        self.actions, self.numbers = np.zeros((2, count), np.int64)

    def next_actions(self) -> int:
        """Fill ``actions``, ``numbers`` and ``loading``; returns how many tables have something to do."""
        ring = self._ring
        ready, self.loading = look_at_tables(
            ring.longs, ring.ints, ring.words, ring.frames_at // 2, self.tables_at, self._table_states, self.flags,
            self._frames, self._counts, self.numbers, self.actions)
        return int(ready)


class Turns(Stage):
    """The tables of one training ring, which take turns together.

    Args:
        ring: the ring.
        columns: of the tables in it.
        stages: of the same tables; they live as long as this.
        bells: whom to wake.
    """

    def __init__(self, ring: RingView, columns: Sequence[int], stages: Sequence["TrainStage"], bells: "Bells") -> None:
        self._ring, self._stages, self._bells = ring, stages, bells
        self._columns = np.array(columns, np.int64)
        self._states = np.array([stage.state.ctypes.data for stage in stages], np.int64)
        self._look = Look(ring, columns, self._states)
        self._frames_at = ring.frames_at // 2

    def step(self) -> int:
        """Do everything that can be done now; never waits.  Returns how many actions were carried out."""
        done = 0
        while True:
            acted = self.turn()
            if not acted:
                return done
            done += acted

    def act(self) -> bool:
        """Let every table carry out its next action; False if there is none, or all must wait."""
        return self.turn() > 0

    def turn(self) -> int:
        """As ``act``; returns how many actions were carried out."""
        look = self._look
        ready, done = look.next_actions(), 0
        if ready:
            done = self._retire() + self._plan() + self._touch()
        if done < ready:
            for table in np.flatnonzero(look.actions).tolist():
                done += self._stages[table].carry_out(int(look.actions[table]) % ALONE, int(look.numbers[table]))
        if look.loading:
            for table in np.flatnonzero(look.flags[:, IS_LOADING]).tolist():
                done += self._stages[table].go_on_with_load()
        return done

    def _retire(self) -> int:
        """Assign the records of finished frames to the truth, acknowledge the frames, then let go of their entries."""
        look, ring = self._look, self._ring
        done = int(assign_frames(ring.longs, ring.ints, self._frames_at, self._columns, self._states, look.numbers,
                                 look.actions))
        if done:
            self._store(RETIRE, LEAVE, RETIRED)
            self._bells.trainer()
            self._bells.pump()
            leave_frames(self._states, look.numbers, look.actions)
        return done

    def _plan(self) -> int:
        """Publish the plans that are due."""
        look, ring = self._look, self._ring
        done = int(plan_frames(ring.longs, ring.ints, self._frames_at, look.tables_at, self._columns, self._states,
                               look.numbers, look.actions))
        if done:
            self._store(PLAN, NOTHING, PLANNED)  # SYNC plan
            self._bells.trainer()
        return done

    def _touch(self) -> int:
        """Find the entries of frames that were deduplicated."""
        look, ring = self._look, self._ring
        done = int(touch_frames(ring.longs, ring.ints, self._frames_at, self._columns, self._states, look.numbers,
                                look.actions))
        if done:
            self._store(TOUCH, NOTHING, TOUCHED)
        return done

    def _store(self, action: int, then: int, word: int) -> None:
        look = self._look
        store_words(self._ring.words, look.tables_at, look.numbers, look.actions, action, then, word)
