"""Scheduler of one training ring, which serves all tables of the ring in one compiled loop.

In each round, the loop selects the next action of each table, and performs touches, plans and retirements of all tables
together. The loop returns to Python to ring a bell, to provide memory, or to perform a rare action of one table
(``ascpipe.workers.train_stage``).
"""
from typing import Optional, Sequence

import numpy as np

from ascpipe.kernels.asks import CARRY_OUT, ENDED, LACKS_NOTHING, PROVIDE
from ascpipe.kernels.next_action import NOTHING
from ascpipe.kernels.records import ROUNDS, TURN
from ascpipe.kernels.ring_rounds import run_tables
from ascpipe.shm.ring import RingView
from ascpipe.workers.listeners import Listeners
from ascpipe.workers.pace import Pace
from ascpipe.workers.stage import Stage
from ascpipe.workers.train_stage import ACTED, PROVIDED, TrainStage

_MOST_ROUNDS = 64  # maximum number of rounds per step; other rings and messages wait for the step


class RingScheduler(Stage):
    """Stage of all tables of one training ring.

    Args:
        columns: columns of the tables in the ring.
        stages: stages of the same tables, whose memory the loop accesses by address.
        listeners: bells of the trainer (waiting), the pump and the disk worker (working).
    """

    def __init__(self, ring: RingView, columns: Sequence[int], stages: Sequence[TrainStage],
                 listeners: Listeners) -> None:
        self._memory = ring.memory
        self._stages = stages
        self._listeners = listeners
        self._turns = np.zeros(len(columns), TURN)
        self._turns["column"] = columns
        self._turns["planner_at"] = [stage.planner_at for stage in stages]
        self._rounds = np.zeros(1, ROUNDS)
        self._pace = Pace(ring)

    def step(self) -> int:
        """Perform up to 64 rounds of actions without waiting. Return the number of actions."""
        return self._run(_MOST_ROUNDS)

    def act(self) -> int:
        """Perform one round; see ``Stage.act``."""
        return self._run(1)

    def pause_s(self) -> Optional[float]:
        """Return the number of seconds that the worker may pause, or None if no batches of this ring are being trained.
        """
        return self._pace.pause_s(int(self._rounds["plans"][0]))

    def _run(self, most: int) -> int:
        rounds = self._rounds
        looks = self._listeners.looks
        rounds["left"] = most
        rounds["done"] = 0
        while True:
            asks = run_tables(self._memory, self._turns, rounds, looks)
            if asks == ENDED:
                return int(rounds["done"][0])
            if asks == PROVIDE:
                rounds["acted"] += self._provide()
            elif asks == CARRY_OUT:
                rounds["acted"] += self._carry_out()
            else:
                self._listeners.ring()

    def _provide(self) -> int:
        """Provide resources that tables lack. Return the number of touches that were blocked or done without entries.
        """
        done = 0
        for table in np.flatnonzero(self._turns["lacks"] != LACKS_NOTHING).tolist():
            turn = self._turns[table]
            outcome = self._stages[table].provide(int(turn["lacks"]), int(turn["number"]))
            turn["lacks"] = LACKS_NOTHING
            if outcome != PROVIDED:
                turn["action"] = NOTHING
                done += outcome == ACTED
        return done

    def _carry_out(self) -> int:
        """Perform rare actions and advance loads. Return the number of performed actions."""
        turns = self._turns
        done = 0
        for table in np.flatnonzero(turns["action"] != NOTHING).tolist():
            done += self._stages[table].carry_out(int(turns["action"][table]), int(turns["number"][table]))
        for table in np.flatnonzero(turns["is_loading"]).tolist():
            done += self._stages[table].advance_load()
        return done
