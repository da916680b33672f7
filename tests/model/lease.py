"""The lease of the protocol, and a separate model: which process may hold it while it waits.

In the protocol there is one lease for all tables: exclusive for a training step and a cut, shared for readers.

``Leases`` is a system of two concurrent runs.  Each has any operations of {train, evaluate} x {A, B}, which
TensorFlow's executor may start in any order.  The number of a run is its ticket, and a claim waits until the earlier
run has trained the table or ended.  The model compares a lease per table with one for all tables.  It also compares
runs that keep their share while they wait to train with runs that release it: as soon as they want to train, or only
when the lease is the last obstacle.  The latter is too late, because an earlier run may wait for the share.
"""

import itertools
from typing import Any, FrozenSet, Iterator, List, NamedTuple, Optional, Tuple

from .explore import STUCK, Move, System, explore
from .scenario import Scenario
from .state import World, replaced


def locks(sc: Scenario) -> int:
    """Return the number of locks."""
    return len(sc.batches) if "lease_per_table" in sc.flaws else 1


def taken(sc: Scenario, world: World, table: int, thread: int, shared: bool) -> Optional[Tuple[Any, ...]]:
    """Return the lease with ``thread`` in it, possibly unchanged, or None if the thread has to wait."""
    if "ignore_lease" in sc.flaws:
        return world.lease
    lock = table if len(world.lease) > 1 else 0
    held = world.lease[lock]
    if held is None:
        return replaced(world.lease, lock, ("R", 1 << thread) if shared else ("X", thread))
    if held == ("X", thread):
        return world.lease
    if shared and held[0] == "R":
        return replaced(world.lease, lock, ("R", held[1] | 1 << thread))
    return None


def take(world: World, lease: Tuple[Any, ...]) -> World:
    """Set the lease to a result of ``taken``."""
    return world._replace(lease=lease)


def given_back(lease: Tuple[Any, ...], thread: int) -> Tuple[Any, ...]:
    """Return the lease without ``thread``."""
    left = []
    for held in lease:
        if held is not None and held[0] == "R":
            others = held[1] & ~(1 << thread)
            held = ("R", others) if others else None
        left.append(None if held == ("X", thread) else held)
    return tuple(left)


def end(world: World, thread: int) -> World:
    """Make the thread idle and release its lease."""
    return world._replace(threads=replaced(world.threads, thread, None), lease=given_back(world.lease, thread))


# ---------------------------------------------------------------- the separate model

NEVER, WHEN_READY, AT_ONCE = "never", "when it could train", "at once"  #: when a waiting run releases its share
TRAIN, EVALUATE = "trains", "evaluates"
Operation = Tuple[str, str]
OPERATIONS: Tuple[Operation, ...] = tuple(itertools.product((TRAIN, EVALUATE), "AB"))


class Runs(NamedTuple):
    """State: per run its remaining operations (None: it has ended), per lock its owner and the runs that share it."""

    todo: Tuple[Optional[FrozenSet[Operation]], ...]
    owners: Tuple[Optional[int], ...]
    sharers: Tuple[FrozenSet[int], ...]


class Leases(System[Runs]):
    """Two runs; ``per_table`` and ``gives_up`` select the compared variants."""

    def __init__(self, programs: Tuple[FrozenSet[Operation], ...], per_table: bool, gives_up: str) -> None:
        self.programs, self.per_table, self.gives_up = programs, per_table, gives_up

    def start(self) -> Runs:
        count = 2 if self.per_table else 1
        return Runs(self.programs, (None,) * count, (frozenset(),) * count)

    def may_stop(self, state: Runs) -> bool:
        return not any(todo is not None for todo in state.todo)

    def moves(self, state: Runs) -> Iterator[Move]:
        for run, todo in enumerate(state.todo):
            if todo is not None and not todo:
                yield Move("run %d ends" % run, self.end, (state, run))
            for operation in todo or ():
                yield from self.operate(state, run, operation)

    def operate(self, state: Runs, run: int, operation: Operation) -> Iterator[Move]:
        kind, table = operation
        lock = "AB".index(table) if self.per_table else 0
        owner, sharers = state.owners[lock], state.sharers[lock]
        label = "run %d %s %s" % (run, kind, table)
        if owner not in (None, run):
            return
        if kind == EVALUATE:
            yield Move(label, self.did, (state, run, operation, lock, owner, sharers | {run}))
        elif not self.must_wait(state, run, table) and not sharers - {run}:
            yield Move(label, self.did, (state, run, operation, lock, run, sharers))
        elif run in sharers and (
            self.gives_up == AT_ONCE or (self.gives_up == WHEN_READY and not self.must_wait(state, run, table))
        ):
            after = state._replace(sharers=replaced(state.sharers, lock, sharers - {run}))
            yield Move("run %d gives its share up" % run, lambda: after, ())

    def must_wait(self, state: Runs, run: int, table: str) -> bool:
        """Return True if an earlier ticket is open and not finished for this table."""
        for earlier in range(run):
            todo = state.todo[earlier]
            if todo and (
                (TRAIN, table) in todo
                or ((TRAIN, table) not in self.programs[earlier] and any(kind == TRAIN for kind, _ in todo))
            ):
                return True
        return False

    @staticmethod
    def did(
        state: Runs, run: int, operation: Operation, lock: int, owner: Optional[int], sharers: FrozenSet[int]
    ) -> Runs:
        todo = state.todo[run]
        return Runs(
            replaced(state.todo, run, None if todo is None else todo - {operation}),
            replaced(state.owners, lock, owner),
            replaced(state.sharers, lock, sharers),
        )

    @staticmethod
    def end(state: Runs, run: int) -> Runs:
        return Runs(
            replaced(state.todo, run, None),
            tuple(None if owner == run else owner for owner in state.owners),
            tuple(sharers - {run} for sharers in state.sharers),
        )


def deadlocks(per_table: bool, gives_up: str) -> List[Tuple[Tuple[FrozenSet[Operation], ...], Tuple[str, ...]]]:
    """Return every pair of runs that can get stuck, with a shortest trace."""
    programs = [frozenset(chosen) for size in range(1, 5) for chosen in itertools.combinations(OPERATIONS, size)]
    found = []
    for pair in itertools.product(programs, repeat=2):
        report = explore(Leases(pair, per_table, gives_up))
        if report.verdict == STUCK:
            found.append((pair, report.trace))
    return found
