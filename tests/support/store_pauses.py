"""Pauses a table worker between two stores, where a test may kill it or let the trainer act, in one process."""
from typing import Any, Callable

import numpy as np

from ascpipe.kernels.next_action import RETIRE
from ascpipe.layout.words import FREE
from ascpipe.shm.ring import PartView, RingView, TableView
from ascpipe.tables import loads, snapshot
from ascpipe.tables import table as table_module
from ascpipe.tables.records import Pending
from ascpipe.tables.table import Table
from ascpipe.workers.train_stage import TrainStage
from tests.support import shared_steps, stepwise
from tests.support.pipeline_sim import Sim


class Killed(BaseException):
    """SIGKILL: nothing of the worker runs any more, not even a handler of Exception."""


class Pauses:
    """Calls ``at(name)`` wherever another process could act or the worker could die."""

    def __init__(self, monkeypatch: Any) -> None:
        self.at: Callable[[str], None] = _go_on
        for owner, names in ((RingView, ("store_word", "replace_word", "store_finished", "look")),
                             (TableView, ("store", "load")),
                             (stepwise.TABLE, ("look", "store_retired", "leave", "plan", "store_planned", "touch",
                                               "store_touched"))):
            for name in names:
                monkeypatch.setattr(owner, name, self._around(getattr(owner, name), name))
        monkeypatch.setattr(stepwise.TABLE, "assign", self._half_way_of_assignment(stepwise.TABLE.assign))
        monkeypatch.setattr(snapshot, "keep_images", self._around(snapshot.keep_images, "images"))
        monkeypatch.setattr(PartView, "__setitem__", self._around(PartView.__setitem__, "field"))
        monkeypatch.setattr(Table, "assign", self._half_way(Table.assign))
        monkeypatch.setattr(table_module, "evict_entries", self._half_way_of_eviction(table_module.evict_entries))
        monkeypatch.setattr(Table, "empty", self._half_way_of_emptying(Table.empty))
        monkeypatch.setattr(loads, "take_over", self._around(loads.take_over, "take over"))
        monkeypatch.setattr(TrainStage, "_give_up_entries", self._around(TrainStage._give_up_entries, "touches"))

    def watch_header(self, sim: Sim, index: int) -> None:
        """Pause at each store of a field of the table's header, too; its worker starts again."""
        sim.tables[index].header = _Header(self, sim.tables[index].header)
        sim.kill(index)

    def _around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.at("before " + name)
            result = function(*args)
            self.at("after " + name)
            return result

        return call

    def _half_way_of_assignment(self, assign: Callable[..., int]) -> Callable[..., int]:
        def call(memory: np.ndarray, turns: np.ndarray, *rest: Any) -> int:
            if shared_steps.is_due(turns, RETIRE):
                shared_steps.assign_halves(memory, turns)
                self.at("half-way of retire")
            asks = assign(memory, turns, *rest)
            if shared_steps.has_done(turns, RETIRE):
                self.at("after retire")
            return asks

        return call

    def _half_way_of_eviction(self, evict: Callable[..., int]) -> Callable[..., int]:
        def call(used: int, *rest: Any) -> int:
            dropped = evict(used // 2, *rest)
            self.at("half-way of an eviction")
            return dropped + evict(used, *rest)

        return call

    def _half_way_of_emptying(self, empty: Callable[[Table], None]) -> Callable[[Table], None]:
        def call(table: Table) -> None:
            table._truth.entries["state"][:table._header["entries_used"] // 2] = FREE
            self.at("half-way of emptying")
            empty(table)
            self.at("after empty")

        return call

    def _half_way(self, retire: Callable[[Table, Pending, int], None]) -> Callable[[Table, Pending, int], None]:
        def call(table: Table, done: Pending, ticket: int) -> None:
            half = done.record._replace(held=done.record.held[:len(done.record.held) // 2])
            half = half._replace(move_in=half.move_in[half.move_in < len(half.held)])
            retire(table, done._replace(record=half), ticket)
            self.at("half-way of retire")
            retire(table, done, ticket)
            self.at("after retire")

        return call


class _Header:
    """The TABLE fields of a segment; ``pauses`` stops at the stores."""

    def __init__(self, pauses: Pauses, fields: Any) -> None:
        self._pauses, self._fields = pauses, fields

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __setitem__(self, name: str, value: int) -> None:
        self._pauses.at("before " + name)
        self._fields[name] = value
        self._pauses.at("after " + name)


def _go_on(name: str) -> None:
    """No action is possible."""
