"""A table whose every plan is compared with one made anew from shared memory alone."""
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, MutableMapping

import numpy as np

from ascpipe.kernels.next_action import PLAN
from ascpipe.layout import structs
from ascpipe.layout.words import FREE, PLAN_NO_MEMORY, PLAN_OK, RETIRED, TOUCHED
from ascpipe.shm.ring import PartView
from ascpipe.tables.records import Batch, Record
from ascpipe.tables.table import Table
from ascpipe.workers import turns
from ascpipe.workers.cuts import truth_of
from tests.reference import replay

if TYPE_CHECKING:
    from tests.support.pipeline_sim import Sim

_TABLES: MutableMapping[int, "ReplayedTable"] = weakref.WeakValueDictionary()  # by the address of their state


class ReplayedTable(Table):
    """A table whose plans are compared with plans made from scratch of what is in shared memory."""

    def __init__(self, sim: "Sim", index: int) -> None:
        self._sim, self._column = sim, index
        super().__init__(truth_of(sim.tables[index]), sim.next_spread())
        _TABLES[self.state.ctypes.data] = self

    def plan(self, batch: Batch, held_count: int) -> Record:
        expected = self._expected(batch) if held_count == len(batch.unique) else None
        record = super().plan(batch, held_count)
        if expected is not None and record.status != PLAN_NO_MEMORY:
            compare(batch.number, vars(record), expected)
        return record

    def expected_in(self, number: int) -> Dict[str, Any]:
        """The plan of a touched frame, made anew."""
        part, frame = self._part(number), self._sim.ring.frames[number % structs.MAX_FRAMES]
        n = part["unique_count"]
        held, occurrences = part.array("entries", n), part.array("occurrences", n)
        return self._expected(Batch(held, *[held] * 8, number, int(frame["ticket"]) & (1 << 48) - 1,
                                    int(frame["timestamp"]), part.array("unique", n), occurrences))

    def compare_published(self, number: int, expected: Dict[str, Any]) -> None:
        """Compare the plan that was written into a frame."""
        part = self._part(number)
        keys, moves = part["held"], part["fresh_count"] + part["load_count"]
        counts = {"move_in": moves, **dict.fromkeys(("out_slots", "out_entries", "out_homes"), part["out_count"])}
        made: Dict[str, Any] = {"held" if name == "entries" else name: part.array(name, counts.get(name, keys))
                                for name in ("entries", "slots", "homes", "counts", "frequencies", *counts)}
        made.update((name, part[name]) for name in ("status", "need", "rows", "time", "admitted"))
        compare(number, {**made, "fresh": part["fresh_count"], "number": number}, expected)

    def _part(self, number: int) -> PartView:
        return self._sim.ring.part(number, self._column)

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


def compare(number: int, made: Dict[str, Any], expected: Dict[str, Any]) -> None:
    """A plan is as it was expected; raises AssertionError if not."""
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in made.items()}
    wrong = {name: (plain[name], value) for name, value in expected.items() if plain[name] != value}
    if wrong:
        raise AssertionError("plan of frame {}: made, expected {}".format(number, wrong))


def _replayed(plan_frames: Callable[..., int]) -> Callable[..., int]:
    """Plans made together are compared, too."""

    def call(longs: np.ndarray, ints: np.ndarray, frames_at: int, tables_at: np.ndarray, columns: np.ndarray,
             states: np.ndarray, numbers: np.ndarray, actions: np.ndarray) -> int:
        due = [(index, _TABLES[int(states[index])], int(numbers[index]))
               for index in np.flatnonzero(actions == PLAN).tolist() if int(states[index]) in _TABLES]
        expected = [table.expected_in(number) for _, table, number in due]
        done = plan_frames(longs, ints, frames_at, tables_at, columns, states, numbers, actions)
        for (index, table, number), one in zip(due, expected):
            if actions[index] == PLAN:
                table.compare_published(number, one)
        return done

    return call


turns.plan_frames = _replayed(turns.plan_frames)
