"""A table whose every plan is compared with one made anew from shared memory alone."""
from typing import TYPE_CHECKING, Any, Dict

import numpy as np

from ascpipe.tables.records import Batch, Record
from ascpipe.tables.table import Table
from ascpipe.words import FREE, PLAN_NO_MEMORY, PLAN_OK, RETIRED, TOUCHED
from ascpipe.workers.cuts import truth_of
from tests.reference import replay

if TYPE_CHECKING:
    from tests.support.pipeline_sim import Sim


class ReplayedTable(Table):
    """A table whose plans are compared with plans made from scratch of what is in shared memory."""

    def __init__(self, sim: "Sim", index: int) -> None:
        self._sim, self._column = sim, index
        super().__init__(truth_of(sim.tables[index]))

    def plan(self, batch: Batch, held_count: int) -> Record:
        expected = self._expected(batch) if held_count == len(batch.unique) else None
        record = super().plan(batch, held_count)
        if expected is not None and record.status != PLAN_NO_MEMORY:
            made = {name: value.tolist() if isinstance(value, np.ndarray) else value
                    for name, value in vars(record).items()}
            wrong = {name: (made[name], value) for name, value in expected.items() if made[name] != value}
            if wrong:
                raise AssertionError("plan of frame {}: made, expected {}".format(batch.number, wrong))
        return record

    def _expected(self, batch: Batch) -> Dict[str, Any]:
        view, ring = self._sim.tables[self._column], self._sim.ring
        used = int(view.header["entries_used"])
        truth = {entry: (int(row32[8]), int(row32[11]), int(row[1]), int(row32[10]))
                 for entry, (row, row32) in enumerate(zip(view.entries[:used], view.entries32)) if row32[9] != FREE}
        records, future = [], []
        for number in range(int(ring.header["head"]), int(ring.header["tail"])):
            word, part = self._sim.word(number, self._column), ring.part(number, self._column)
            held = part.array("entries", part["held"]).tolist()
            if word == TOUCHED and number != batch.number:
                future.append(set(held))
            elif TOUCHED < word < RETIRED and part["status"] == PLAN_OK:
                records.append({"held": held, **{name: part.array(name, part["held"]).tolist() for name in (
                    "slots", "homes", "counts", "frequencies")},
                    "out_entries": part.array("out_entries", part["out_count"]).tolist()})
        header = view.header
        counts = header["access_threshold"] < 0 or header["counting"]
        return replay.plan(
            replay.view_of(truth, records), batch.held.tolist(), batch.occurrences.tolist(), future,
            int(header["device_rows"]), int(header["home_capacity"]), int(header["access_threshold"]),
            int(header["faae_coefficient"]) if counts else 0, batch.sequence)
