"""Model of rows on disk: tables larger than memory, with a process that owns the row file.

A row is on the device, at home (in host memory) or in a disk slot.  This module has the invariants.  The actors are in
``disk_table.py``, ``disk_worker.py``, ``disk_trainer.py`` and ``disk_readers.py``; scenarios and flaws are in
``disk_scenarios.py``.  docs/internals/adr/0045-rows-on-disk.md explains the design.
"""

from typing import Any, Callable, Dict, Iterator, Set, Tuple

from . import disk_readers, disk_table, disk_trainer, disk_worker
from .disk_asks import is_idle
from .disk_state import (
    ARRIVED,
    CLAIMED,
    DISK_SLOT,
    DONE,
    HOME_ROW,
    NONE,
    READ,
    Asks,
    Budget,
    Cut,
    DiskWorker,
    Entry,
    Evaluation,
    Scenario,
    Worker,
    World,
    at,
    canonical,
    counts,
    true_row,
    view,
)
from .explore import Move, System, Violation


class DiskRows(System[World]):
    """The model of rows on disk for one scenario."""

    def __init__(self, sc: Scenario) -> None:
        self.sc = sc

    def start(self) -> World:
        return begin(self.sc)

    def moves(self, state: World) -> Iterator[Move]:
        if state.ended:
            return
        check(self.sc, state)
        for part in (disk_trainer, disk_readers, disk_table, disk_worker):
            for label, effect, args, optional in part.moves(self.sc, state):
                yield Move(label, _then, (effect, args), optional)

    def may_stop(self, state: World) -> bool:
        sc = self.sc
        return state.ended or (
            state.next > len(sc.batches) and not state.frames and state.cut.number == len(sc.cuts)
            and state.evaluation.next >= len(sc.evals) and state.save is None and not state.budget.saves
            and all(request is None or request.word == ARRIVED for request in state.requests)
            and all(map(is_idle, state.asks)))


def _then(effect: Callable[..., World], args: Tuple[Any, ...]) -> World:
    return canonical(effect(*args))


def begin(sc: Scenario) -> World:
    """Return the initial state, with the rows where the scenario puts them."""
    entries, device, homes = [], [None] * sc.device, [None] * sc.homes
    disk, rows = [None] * sc.disk, []
    numbers = {"d": 0, "h": 0, "s": 0}
    for key, where in enumerate(sc.begin):
        row = (key, 0, 0)
        rows.append((0, None if where == "-" else 0))
        if where == "-":
            entries.append(Entry(NONE, NONE, 0))
        elif where == "s":
            disk[numbers["s"]] = (row, 1)
            entries.append(Entry(NONE, at(numbers["s"]), 1))
        else:
            slot = numbers["d"] if where == "d" else NONE
            if where == "d":
                device[slot] = row
            else:
                homes[numbers["h"]] = row
            entries.append(Entry(slot, numbers["h"], 0))
            numbers["h"] += where == "d"  # a row on the device also has a home row
        if where != "-":
            numbers[where] += 1
    worker = Worker(homes=frozenset(range(numbers["h"], sc.homes)), slots=frozenset(range(numbers["s"], sc.disk)))
    asks = Asks((None,) * sc.asks, (None,) * sc.asks)
    budget = Budget(sc.kills, sc.disk_kills, sc.reader_kills, sc.drops, sc.asides, sc.fails, sc.lost, sc.saves,
                    sc.interrupts)
    return World(tuple(entries), tuple(device), tuple(homes), tuple(disk), (None,) * sc.homes, (), 1, 0,
                 frozenset(), 1, (0, 0), "", worker, DiskWorker(), (asks, asks), Evaluation(), None, Cut(),
                 tuple(rows), budget)


# ---------------------------------------------------------------- invariants


def check(sc: Scenario, world: World) -> None:
    """Check that each home row and disk slot has one owner, is free, or is in quarantine, and that each row is where
    its entry states.
    """
    homes, slots = _owners(sc, world)
    _at_most_one(HOME_ROW, homes)
    _at_most_one(DISK_SLOT, slots)
    worker = world.worker
    if worker is not None and not world.cut.filled:
        for what, owners, unowned, size in ((HOME_ROW, homes, worker.homes, sc.homes),
                                            (DISK_SLOT, slots, worker.slots, sc.disk)):
            quarantined = [number for kind, number, _ in worker.quarantined if kind == what]
            known = sorted(list(unowned) + quarantined + list(owners))
            if len(known) != len(set(known)):
                raise Violation("a %s is free, or in quarantine, and has an owner: %s" % (what, known))
            if not worker.doing and not world.cut.committed and len(known) != size:
                raise Violation("a %s is lost: of %d there are %s" % (what, size, known))
    if not any(frame.word == CLAIMED for frame in world.frames):
        _check_rows(sc, world)


def _owners(sc: Scenario, world: World) -> Tuple[Dict[int, Set[Any]], Dict[int, Set[Any]]]:
    homes: Dict[int, Set[Any]] = {}
    slots: Dict[int, Set[Any]] = {}
    for key, entry in enumerate(world.entries):
        if entry.home >= 0:
            homes.setdefault(entry.home, set()).add(key)
        elif entry.home <= at(0):
            slots.setdefault(at(entry.home), set()).add(key)
    for frame in world.frames:
        for key, _, home in frame.record.values if frame.record is not None else ():
            homes.setdefault(home, set()).add(key)
    for number, request in enumerate(world.requests):
        if request is None:
            continue
        entry = world.entries[request.key]
        if request.kind == READ:
            known = entry.home == request.home or counts(sc, world, request)
            homes.setdefault(request.home, set()).add(request.key if known else "request %d" % number)
        else:
            stored = (entry.home, entry.generation) == (at(request.slot), request.generation)
            slots.setdefault(request.slot, set()).add(request.key if stored else "request %d" % number)
    return homes, slots


def _at_most_one(what: str, owners: Dict[int, Set[Any]]) -> None:
    for number, of in owners.items():
        if len(of) > 1:
            raise Violation("%s %d has two owners: %s" % (what, number, sorted(map(str, of))))


def _check_rows(sc: Scenario, world: World) -> None:
    for key, entry in enumerate(view(world, DONE)):
        row = true_row(world, key)
        if row is None:
            continue
        if entry.home <= at(0):
            good = disk_worker.check_disk(world, key, at(entry.home), entry.generation)
            if not good and world.budget.lost == sc.lost:
                raise Violation("disk slot %d has %s, should be %s of generation %d"
                                % (at(entry.home), world.disk[at(entry.home)], row, entry.generation))
            continue
        if entry.home == NONE:
            raise Violation("the row of key %d is lost" % key)
        found = world.device[entry.slot] if entry.slot != NONE else world.homes[entry.home]
        if found != row:
            raise Violation("the row of key %d is %s, should be %s" % (key, found, row))
