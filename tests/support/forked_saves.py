"""Copies snapshots of the tables of a ``ForkedSim`` at any time; they change nothing else."""
import random
from typing import TYPE_CHECKING

from tests.support.kill_script import TABLES
from tests.support.sim_snapshot import may_begin

if TYPE_CHECKING:
    from tests.support.forked_sim import ForkedSim

LOG_CAPACITY = 5  #: of a table: not always room for one batch's images


class ForkedSaves:
    """The trainer's end of all snapshots.

    Args:
        sim: of which tables; its ``snapshots`` are the last ones.
        rng: decides when.
    """

    def __init__(self, sim: "ForkedSim", rng: random.Random) -> None:
        self._sim, self._rng = sim, rng

    def turn(self, *, may_begin_more: bool) -> None:
        """Go on with some snapshots, begin some."""
        for index in range(TABLES):
            last = self._sim.snapshots.get(index)
            if last is not None and not last.is_over:
                if self._rng.random() < 0.15:
                    last.advance()
            elif may_begin_more and self._rng.random() < 0.03 and may_begin(self._sim, index):
                self._begin(index)

    def are_over(self) -> bool:
        return all(snapshot.is_over for snapshot in self._sim.snapshots.values())

    def _begin(self, index: int) -> None:
        header = self._sim.tables[index].header
        header["snapshot_log_ready"] = 0  # the worker's, which rests: so that its log grows more than once
        blocks = self._rng.choice([1, 2, 8])
        self._sim.begin_snapshot(index, block=1 + int(header["entries_used"]) // blocks)
