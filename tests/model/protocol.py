"""The whole protocol as one system of all actors."""

from typing import Iterator

from . import key_worker, lease, oracle, pump, table_worker, trainer
from .explore import Move, System
from .scenario import Scenario
from .state import FREE, NOWHERE, Budget, KeyWorker, Oracle, Pump, Step, Table, World


class Protocol(System[World]):
    """The protocol in one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def start(self) -> World:
        sc = self.scenario
        notes = Oracle(((0, False),) * sc.keys, ((0, None),) * sc.keys, sc.threshold)
        table = Table(
            (None,) * sc.keys,
            (NOWHERE,) * sc.slots,
            (None,) * sc.keys,
            (None,) * sc.slots,
            0,
            sc.threshold,
            None,
            None,
            (0,) * sc.keys,
            notes,
        )
        return World(
            pump=Pump(1, 0),
            ring=(),
            claims=(FREE,) * (sc.positions if sc.key_workers else 0),
            key_workers=tuple(KeyWorker(1 + index) for index in range(sc.key_workers)),
            supervisor=None,
            tables=(table,) * len(sc.batches),
            eval_ring=(),
            eval_next=1,
            fetch=1,
            eval_fetch=1,
            threads=(None,) * sc.threads,
            lease=(None,) * lease.locks(sc),
            budget=Budget(sc.kills, sc.key_kills, sc.reads, len(sc.cuts), sc.restarts, sc.fails, sc.asides),
        )

    def moves(self, state: World) -> Iterator[Move]:
        sc = self.scenario
        yield from pump.moves(sc, state)
        if sc.key_workers:
            yield from key_worker.moves(sc, state)
        for table in sc.tables:
            yield from table_worker.moves(sc, state, table)
        for thread in range(sc.threads):
            yield from trainer.moves(sc, state, thread)
        if "end_before_close" in sc.flaws:
            yield from _late_closes(sc, state)

    def may_stop(self, state: World) -> bool:
        sc = self.scenario
        if state.ring or state.eval_ring or any(state.threads) or any(state.lease) or state.supervisor is not None:
            return False
        if state.pump.ticket <= sc.last or state.pump.doing is not None or state.eval_fetch <= len(sc.evals):
            return False
        if any(worker.doing is not None for worker in state.key_workers):
            return False
        return all(self._rests(table) for table in state.tables)

    def _rests(self, table: Table) -> bool:
        """Return True if nothing is unfinished, no mask is set, no name is unused, and the truth is correct."""
        return (
            table.doing is None
            and table.cut is None
            and not any(table.masks)
            and oracle.counts_of(table.entries, self.scenario.keys) == table.oracle.counts
            and all(entry is None or entry.times or entry.has_row for entry in table.entries)
        )


def _late_closes(sc: Scenario, world: World) -> Iterator[Move]:
    """Close tickets of ended steps later; only with the flaw ``end_before_close``."""
    for index, frame in enumerate(world.ring):
        in_step = any(isinstance(doing, Step) and doing.ticket == frame.ticket for doing in world.threads)
        if frame.ticket < world.fetch and not frame.closed and not in_step:
            ring = world.ring[:index] + (frame._replace(closed=True),) + world.ring[index + 1 :]
            yield Move("ticket %d is closed late" % frame.ticket, pump.give_back, (sc, world._replace(ring=ring)))
