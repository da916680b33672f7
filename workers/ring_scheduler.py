"""Scheduler of one training ring: serves all of its tables together, by one compiled loop.

In each round the loop looks what each table has to do next; tables that retire, plan or touch do so together.  It
returns for what Python code does: rings a bell whose owner waits, provides what a table lacks, and carries out what is
rare, table by table (``ascpipe.workers.train_stage``).
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

_MOST_ROUNDS = 64  # of a step: the worker has other rings and messages, too


class RingScheduler(Stage):
    """The tables of one training ring.

    Args:
        ring: the ring.
        columns: of the tables in it.
        stages: of the same tables; they live as long as this.
        listeners: the bells of the trainer, which waits, and of the pump, which works.
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
        """Do what can be done now, some rounds of it at most; never waits.  Returns how many actions were carried out.
        """
        return self._run(_MOST_ROUNDS)

    def act(self) -> int:
        """Carry out the next action of every table; returns how many: 0 if there is none, or all must wait."""
        return self._run(1)

    def pause_s(self) -> Optional[float]:
        """Seconds to pause; None if this ring does not train."""
        return self._pace.pause_s(int(self._rounds["plans"][0]))

    def _run(self, most: int) -> int:
        """Serve the tables for ``most`` rounds, or until nothing can be done; returns how many actions there were."""
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
        """Provide what tables lack for their actions; returns how many did something else instead."""
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
        """Carry out rare actions, and advance loads; returns how many were not to wait."""
        turns = self._turns
        done = 0
        for table in np.flatnonzero(turns["action"] != NOTHING).tolist():
            done += self._stages[table].carry_out(int(turns["action"][table]), int(turns["number"][table]))
        for table in np.flatnonzero(turns["is_loading"]).tolist():
            done += self._stages[table].advance_load()
        return done
