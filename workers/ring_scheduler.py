"""Scheduler of one training ring: picks the next action of every table and runs equal actions in one compiled call.

One look decides what each table has to do.  Tables that retire, plan or touch do so together; what a table lacks is
provided, and the call repeated.  Then one call stores their words, and the bells ring once.  What is rare is done table
by table, by ``ascpipe.workers.train_stage``.
"""
from typing import Callable, Optional, Sequence, Tuple

import numpy as np

from ascpipe.kernels.batch_steps import LACKS_NOTHING
from ascpipe.kernels.next_action import NOTHING, PLAN, RETIRE, TOUCH
from ascpipe.kernels.records import TURN
from ascpipe.kernels.ring_steps import (
    LEAVE,
    assign_frames,
    leave_frames,
    look_at_tables,
    plan_frames,
    store_words,
    touch_frames,
)
from ascpipe.layout.words import PLANNED, RETIRED, TOUCHED
from ascpipe.shm.ring import RingView
from ascpipe.workers.pace import Pace
from ascpipe.workers.stage import Bells, Stage
from ascpipe.workers.train_stage import ACTED, PROVIDED, TrainStage

_Step = Callable[[np.ndarray, np.ndarray], Tuple[int, int]]


class RingScheduler(Stage):
    """The tables of one training ring.

    Args:
        ring: the ring.
        columns: of the tables in it.
        stages: of the same tables; they live as long as this.
        bells: to be rung.
    """

    def __init__(self, ring: RingView, columns: Sequence[int], stages: Sequence[TrainStage], bells: Bells) -> None:
        self._memory, self._stages, self._bells = ring.memory, stages, bells
        self._turns = np.zeros(len(columns), TURN)
        self._turns["column"] = columns
        self._turns["planner_at"] = [stage.planner_at for stage in stages]
        self._plans = 0
        self._pace = Pace(ring)

    def act(self) -> int:
        """Carry out the next action of every table; returns how many: 0 if there is none, or all must wait."""
        ready, loading, self._plans = self._look()
        done = 0
        if ready:
            done = self._retire() + self._plan() + self._touch()
        if done < ready:
            for table in np.flatnonzero(self._turns["action"]).tolist():
                done += self._stages[table].carry_out(
                    int(self._turns["action"][table]), int(self._turns["number"][table]))
        if loading:
            for table in np.flatnonzero(self._turns["is_loading"]).tolist():
                done += self._stages[table].advance_load()
        return done

    def pause_s(self) -> Optional[float]:
        """Seconds to pause; None if this ring does not train."""
        return self._pace.pause_s(self._plans)

    def _look(self) -> Tuple[int, int, int]:
        """(how many tables have something to do, how many are granted to the trainer, how many plans stand)"""
        return look_at_tables(self._memory, self._turns)

    def _retire(self) -> int:
        """Assign the records of finished frames to the truth, acknowledge these, then take them out of the window."""
        done = self._together(assign_frames, RETIRE)
        if done:
            store_words(self._memory, self._turns, RETIRE, LEAVE, RETIRED)  # SYNC retired: store
            self._bells.trainer()
            self._bells.pump()
            leave_frames(self._turns, NOTHING)
        return done

    def _plan(self) -> int:
        """Publish the plans that are due."""
        done = self._together(plan_frames, PLAN)
        if done:
            store_words(self._memory, self._turns, PLAN, NOTHING, PLANNED)  # SYNC plan: store
            self._bells.trainer()
        return done

    def _touch(self) -> int:
        """Find the entries of frames that were deduplicated."""
        done = self._together(touch_frames, TOUCH)
        if done:
            store_words(self._memory, self._turns, TOUCH, NOTHING, TOUCHED)
        return done

    def _together(self, step: _Step, action: int) -> int:
        """Run a step for all tables with this action, and provide what they lack; returns how many have acted."""
        turns = self._turns
        done, lacking = step(self._memory, turns)
        while lacking:
            for table in np.flatnonzero((turns["action"] == action) & (turns["lacks"] != LACKS_NOTHING)).tolist():
                turn = turns[table]
                outcome = self._stages[table].provide(int(turn["lacks"]), int(turn["number"]))
                turn["lacks"] = LACKS_NOTHING
                if outcome != PROVIDED:
                    turn["action"] = NOTHING
                    done += outcome == ACTED
            more, lacking = step(self._memory, turns)
            done += more
        return int(done)
