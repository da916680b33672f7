"""Places between two stores of a table worker where a test may kill it or let the trainer act, in one process."""
import dataclasses
from typing import Any, Callable

import numpy as np

from ascpipe.kernels.entry import STATE
from ascpipe.kernels.next_action import RETIRE
from ascpipe.layout.words import FREE
from ascpipe.shm.ring import PartView, RingView
from ascpipe.tables import loads, snapshot
from ascpipe.tables import table as table_module
from ascpipe.tables.records import Record
from ascpipe.tables.table import Table
from ascpipe.workers import cuts, snapshots, train_stage, turns
from ascpipe.workers.train_stage import TrainStage
from ascpipe.workers.turns import Look
from tests.support import shared_steps
from tests.support.pipeline_sim import Sim


class Killed(BaseException):
    """SIGKILL: nothing of the worker runs any more, not even a handler of Exception."""


class Pauses:
    """Calls ``at(name)`` wherever another process could act or the worker could die."""

    def __init__(self, monkeypatch: Any) -> None:
        self.at: Callable[[str], None] = _go_on
        self.is_alone: Callable[[], bool] = _never  #: does each table take the next step alone?
        for module, names in ((train_stage, ("exchange_u32", "compare_exchange_u32", "store_release_i64",
                                             "load_acquire_i64")), (cuts, ("exchange_i64", "load_acquire_i64")),
                              (snapshots, ("exchange_i64", "load_acquire_i64")),
                              (turns, ("store_words", "plan_frames", "touch_frames", "leave_frames"))):
            for name in names:
                monkeypatch.setattr(module, name, self._around(getattr(module, name), name))
        assign = self._half_way_of_assignment(turns.assign_frames)
        monkeypatch.setattr(turns, "assign_frames", assign)
        for name, action in shared_steps.ACTIONS.items():
            monkeypatch.setattr(turns, name, shared_steps.left_alone(
                getattr(turns, name), action, lambda: self.is_alone()))
        monkeypatch.setattr(snapshot, "keep_images", self._around(snapshot.keep_images, "images"))
        monkeypatch.setattr(RingView, "look", self._around(RingView.look, "look"))
        monkeypatch.setattr(Look, "next_actions", self._around(Look.next_actions, "look"))
        monkeypatch.setattr(PartView, "__setitem__", self._around(PartView.__setitem__, "field"))
        monkeypatch.setattr(Table, "assign", self._half_way(Table.assign))
        monkeypatch.setattr(table_module, "evict_entries", self._half_way_of_eviction(table_module.evict_entries))
        monkeypatch.setattr(Table, "empty", self._half_way_of_emptying(Table.empty))
        monkeypatch.setattr(loads, "take_over", self._around(loads.take_over, "take over"))
        monkeypatch.setattr(TrainStage, "_give_up_entries", self._around(TrainStage._give_up_entries, "touches"))

    def watch_header(self, sim: Sim, index: int) -> None:
        """Let each store of a field of the table's header be such a place, too; its worker starts again."""
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
        def call(*args: Any) -> int:
            if shared_steps.is_due(args[-1], RETIRE):
                shared_steps.assign_halves(*args)
                self.at("half-way of retire")
            done = assign(*args)
            if done:
                self.at("after retire")
            return done

        return call

    def _half_way_of_eviction(self, evict: Callable[..., int]) -> Callable[..., int]:
        def call(used: int, *rest: Any) -> int:
            dropped = evict(used // 2, *rest)
            self.at("half-way of an eviction")
            return dropped + evict(used, *rest)

        return call

    def _half_way_of_emptying(self, empty: Callable[[Table], None]) -> Callable[[Table], None]:
        def call(table: Table) -> None:
            table._truth.entries32[:table._header["entries_used"] // 2, STATE] = FREE
            self.at("half-way of emptying")
            empty(table)
            self.at("after empty")

        return call

    def _half_way(self, retire: Callable[[Table, Record, int], None]) -> Callable[[Table, Record, int], None]:
        def call(table: Table, record: Record, ticket: int) -> None:
            half = len(record.held) // 2
            retire(table, dataclasses.replace(record, held=record.held[:half]), ticket)
            self.at("half-way of retire")
            retire(table, record, ticket)
            self.at("after retire")

        return call


class _Header:
    """The TABLE fields of a segment; the stores are places of ``pauses``."""

    def __init__(self, pauses: Pauses, fields: np.ndarray) -> None:
        self._pauses, self._fields = pauses, fields

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __setitem__(self, name: str, value: int) -> None:
        self._pauses.at("before " + name)
        self._fields[name] = value
        self._pauses.at("after " + name)


def _never() -> bool:
    return False


def _go_on(name: str) -> None:
    """Nobody acts."""
