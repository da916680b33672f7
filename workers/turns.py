"""Whose turn it is: what the tables of a training ring have to do next, by one compiled look at all of them."""
from typing import TYPE_CHECKING, Sequence, Tuple

import numpy as np
from numba import njit

from ascpipe.kernels.next_action import NOTHING, next_train_action
from ascpipe.shm import layout
from ascpipe.shm.atomics import load_acquire_i64
from ascpipe.shm.ring import RingView, read_frames
from ascpipe.workers.stage import Stage

if TYPE_CHECKING:
    from ascpipe.workers.train_stage import TrainStage

_LOOK_AHEAD, _PLAN_AHEAD = (layout.RING.fields[name][1] // 4 for name in ("look_ahead", "plan_ahead"))
_FINISHED, _WANTED = (layout.RING_TABLE.fields[name][1] // 8 for name in ("finished", "wanted"))
_WORDS = layout.RING_TABLE.fields["words"][1] // 4
_TICKET = layout.FRAME.fields["ticket"][1] // 8
_FRAME_INT64 = layout.FRAME.itemsize // 8
_PLACES = layout.MAX_FRAMES

# columns of ``flags``
CUT_ASKED, TOUCH_BLOCKED, IS_LOADING = range(3)


@njit("int64(int64[::1], int64, int64, int64, int64)", cache=True)
def wanted_frame(longs: np.ndarray, frames_at: int, table_at: int, head: int, count: int) -> int:
    """Which frame a claim of a table waits for.

    Args:
        longs: int64 view of the ring segment.
        frames_at, table_at: index there of the first FRAME, and of the table's RING_TABLE.
        head, count: number of the oldest frame, how many frames there are.

    Returns:
        Its place among them, the oldest being 0; or -1.
    """
    wanted = load_acquire_i64(longs, table_at + _WANTED)
    if wanted > load_acquire_i64(longs, table_at + _FINISHED):
        for i in range(count):
            if longs[frames_at + (head + i) % _PLACES * _FRAME_INT64 + _TICKET] == wanted:
                return i
    return -1


@njit("int64(int64[::1], uint32[::1], int64, int64[::1], boolean[:, ::1], int64[:, ::1], int64[::1], int64[::1])",
      cache=True)
def next_train_actions(longs: np.ndarray, words: np.ndarray, frames_at: int, tables_at: np.ndarray, flags: np.ndarray,
                       scratch: np.ndarray, out_actions: np.ndarray, out_numbers: np.ndarray) -> int:
    """Choose the next action of each table in a training ring.

    Args:
        longs, words: int64, uint32 views of the ring segment.
        frames_at: index of the first FRAME in ``longs``.
        tables_at: int64[tables]; index of each table's RING_TABLE in ``longs``.
        flags: bool[tables, 3]; CUT_ASKED, read before this look, TOUCH_BLOCKED and IS_LOADING.
        scratch: int64[3, MAX_FRAMES].
        out_actions, out_numbers: int64[tables]; receive the actions and the numbers of their frames.

    Returns:
        How many tables have something to do.
    """
    ready = 0
    for table in range(tables_at.shape[0]):
        out_actions[table] = NOTHING
        if flags[table, IS_LOADING]:
            continue
        head, count = read_frames(longs, words, 2 * frames_at, 2 * tables_at[table] + _WORDS, scratch[0], scratch[1],
                                  scratch[2])
        action, at = next_train_action(
            scratch[0], scratch[1], scratch[2], count, np.int64(words[_LOOK_AHEAD]), np.int64(words[_PLAN_AHEAD]),
            wanted_frame(longs, frames_at, tables_at[table], head, count), flags[table, CUT_ASKED],
            flags[table, TOUCH_BLOCKED])
        out_actions[table] = action
        out_numbers[table] = head + at
        ready += action != NOTHING
    return ready


class Look:
    """Looks at some tables of a training ring.

    Args:
        ring: the ring.
        columns: of the tables in it.

    Attributes:
        flags: bool[tables, 3]; what is known of each table, to be set before a look.
    """

    def __init__(self, ring: RingView, columns: Sequence[int]) -> None:
        self._ring, count = ring, len(columns)
        self._tables_at = np.array([ring.table_index(column) for column in columns], np.int64)
        self.flags = np.zeros((count, 3), np.bool_)
        self._scratch = np.zeros((3, _PLACES), np.int64)
        self._actions, self._numbers = np.zeros(count, np.int64), np.zeros(count, np.int64)

    def next_actions(self) -> Sequence[Tuple[int, int, int]]:
        """(table, action, number of the frame) of each that has something to do; tables count from 0, as given."""
        ring = self._ring
        if not next_train_actions(ring.longs, ring.words, ring.frames_at // 2, self._tables_at, self.flags,
                                  self._scratch, self._actions, self._numbers):
            return ()
        return [(table, int(self._actions[table]), int(self._numbers[table]))
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
