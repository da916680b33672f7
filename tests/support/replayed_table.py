"""Compares every plan of a table with one derived from nothing except shared memory."""
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, MutableMapping, Optional

import numpy as np

from ascpipe.kernels.next_action import PLAN
from ascpipe.layout.words import FREE, PLAN_NO_MEMORY, PLAN_OK, RETIRED, TOUCHED
from ascpipe.shm.ring import PartView
from ascpipe.tables.table import Table
from ascpipe.workers.stage import truth_of
from tests.reference import replay
from tests.support import stepwise

if TYPE_CHECKING:
    from tests.support.pipeline_sim import Sim

_TABLES: MutableMapping[int, "ReplayedTable"] = weakref.WeakValueDictionary()  # by the address of their planner


class ReplayedTable(Table):
    """A table whose plans are compared with plans made from scratch of what is in shared memory."""

    def __init__(self, sim: "Sim", index: int) -> None:
        self._sim, self._column = sim, index
        super().__init__(truth_of(sim.tables[index]), sim.next_spread())
        _TABLES[self.planner_at] = self

    def expected_in(self, number: int) -> Optional[Dict[str, Any]]:
        """The plan of a touched frame, made anew; None if its keys found no entries."""
        part = self._part(number)
        return self._expected(number, part) if part["held"] == part["unique_count"] else None

    def compare_published(self, number: int, expected: Optional[Dict[str, Any]]) -> None:
        """Compare the plan that was written into a frame."""
        part = self._part(number)
        if expected is None or part["status"] == PLAN_NO_MEMORY:
            return
        made: Dict[str, Any] = part.record(
            part["held"], part["fresh_count"] + part["load_count"], part["out_count"])._asdict()
        made.update((name, part[name]) for name in ("status", "need", "rows", "time", "admitted"))
        compare(number, {**made, "fresh": part["fresh_count"]}, expected)

    def _part(self, number: int) -> PartView:
        return self._sim.ring.part(number, self._column)

    def _expected(self, number: int, part: PartView) -> Dict[str, Any]:
        view, ring, n = self._sim.tables[self._column], self._sim.ring, part["unique_count"]
        known = view.entries[:int(view.header["entries_used"])]
        truth = {entry: row for entry, (row, state) in enumerate(zip(
            zip(*(known[field].tolist() for field in ("slot", "home", "count", "frequency"))),
            known["state"].tolist())) if state != FREE}
        records, future = [], []
        for other in range(int(ring.header["head"]), int(ring.header["tail"])):
            word, theirs = self._sim.word(other, self._column), ring.part(other, self._column)
            if word == TOUCHED and other != number:
                future.append(set(theirs.array("entries", theirs["held"]).tolist()))
            elif TOUCHED < word < RETIRED and theirs["status"] == PLAN_OK:
                record = theirs.record(theirs["held"], 0, theirs["out_count"])
                records.append({name: array.tolist() for name, array in record._asdict().items()})
        header = view.header
        counts = header["access_threshold"] < 0 or header["counting"]
        return replay.plan(
            replay.view_of(truth, records), part.array("entries", n).tolist(), part.array("occurrences", n).tolist(),
            future, int(header["device_rows"]), int(header["home_capacity"]), int(header["access_threshold"]),
            int(header["faae_coefficient"]) if counts else 0, int(ring.frame(number)["ticket"]) & (1 << 48) - 1)


def compare(number: int, made: Dict[str, Any], expected: Dict[str, Any]) -> None:
    """A plan is as it was expected; raises AssertionError if not."""
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in made.items()}
    wrong = {name: (plain[name], value) for name, value in expected.items() if plain[name] != value}
    if wrong:
        raise AssertionError("plan of frame {}: made, expected {}".format(number, wrong))


def _replayed(plan: Callable[..., int]) -> Callable[..., int]:
    """Each plan is compared when it is made."""

    def call(memory: np.ndarray, turns: np.ndarray, *rest: Any) -> int:
        due = [(turn, _TABLES[int(turn["planner_at"])]) for turn in turns
               if turn["action"] == PLAN and not turn["done"] and int(turn["planner_at"]) in _TABLES]
        expected = [table.expected_in(int(turn["number"])) for turn, table in due]
        asks = plan(memory, turns, *rest)
        for (turn, table), one in zip(due, expected):
            if turn["done"]:
                table.compare_published(int(turn["number"]), one)
        return asks

    return call


stepwise.install()
stepwise.TABLE.plan = _replayed(stepwise.TABLE.plan)
