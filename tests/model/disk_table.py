"""The table worker in the model of rows on disk: fetches, spills, plans, retires, cuts, its death and its successor.

``Worker.doing`` is the list of stores that are left of an action.  It is lost with the worker, as are its free lists
and its quarantine.
"""

from typing import Any, Iterator, List, Tuple

from . import disk_asks
from .disk_plans import arrival, do, plans_or_cuts
from .disk_state import (
    ARRIVED,
    ASKED,
    DISK_SLOT,
    DONE,
    DROP,
    FAILED,
    HOME_ROW,
    LOAD,
    NONE,
    PLANNED,
    READ,
    TOUCHED,
    WRITE,
    Entry,
    Frame,
    Request,
    Scenario,
    Worker,
    World,
    at,
    batch,
    counts,
    held,
    view,
)
from .disk_stores import DO, LABELS, free, quarantine, with_worker
from .explore import Move, Violation
from .state import replaced


def moves(sc: Scenario, world: World) -> Iterator[Move]:
    """Yield the moves of the table worker, its death and the start of its successor."""
    worker = world.worker
    if worker is None:
        yield Move("table worker: starts", start, (sc, world))
        return
    if world.budget.kills:
        budget = world.budget._replace(kills=world.budget.kills - 1)
        yield Move("table worker: SIGKILL", lambda: world._replace(worker=None, budget=budget), (), True)
    if worker.doing:
        name, *arguments = worker.doing[0]
        after = with_worker(world, doing=worker.doing[1:])
        yield Move("table worker: " + LABELS[name] % tuple(arguments), DO[name], (sc, after, *arguments))
    elif world.cut.committed:
        yield from _applies(sc, world)
    else:
        yield from _completes(sc, world)
        yield from _head(sc, world)
        yield from _touches(sc, world)
        yield from _pins(sc, world)
        yield from plans_or_cuts(sc, world)
        yield from _fetches(sc, world)
        yield from _spills(sc, world, worker)
        yield from _releases(sc, world, worker)


def start(sc: Scenario, world: World, then: Tuple[Tuple[Any, ...], ...] = ()) -> World:
    """Derive private memory from entries, requests and records.  Only frames with a record are pinned."""
    homes, slots = set(), set()
    for entry in world.entries:
        homes.add(entry.home)
        slots.add(at(entry.home))
    for request in world.requests:
        if request is not None and request.kind == READ:
            homes.add(request.home)
        elif request is not None:
            slots.add(request.slot)
    for frame in world.frames:
        if frame.record is not None:
            homes.update(home for _, _, home in frame.record.values)
    doing: List[Tuple[Any, ...]] = list(then)
    for number, request in enumerate(world.requests):
        if request is not None and _is_stored(world, request) and "restart_leaves_stored" not in sc.flaws:
            doing.append(("empty", number, "", 0))
    doing += [("revoke", frame.ticket) for frame in reversed(world.frames) if frame.word == PLANNED]
    pinned = world.frames[-1].ticket if world.frames and "restart_takes_touched_as_pinned" in sc.flaws else 0
    free_homes, free_slots = set(range(sc.homes)) - homes, set(range(sc.disk)) - slots
    if "restart_forgets_quarantine" in sc.flaws:
        worker = Worker(tuple(doing), frozenset(free_homes), frozenset(free_slots), pinned=pinned)
        return world._replace(worker=worker)
    quarantined = [(HOME_ROW, number, world.epoch) for number in free_homes]
    quarantined += [(DISK_SLOT, number, world.epoch) for number in free_slots]
    return world._replace(worker=Worker(tuple(doing), quarantined=frozenset(quarantined), pinned=pinned),
                          epoch=world.epoch + 1)


def _is_stored(world: World, request: Request) -> bool:
    """Return True if the request is a spill that the entry already contains."""
    entry = world.entries[request.key]
    return request.kind == WRITE and (entry.home, entry.generation) == (at(request.slot), request.generation)


def _applies(sc: Scenario, world: World) -> Iterator[Move]:
    """Yield the moves of a committed cut.  After a kill they start again, unless a load was granted."""
    kind, keys = sc.cuts[world.cut.number]
    if world.cut.filled and disk_asks.writes_are_under_way(world) and "load_taken_over_early" not in sc.flaws:
        return  # the disk slots of a load that was given up are not free yet
    if world.cut.filled:
        is_empty = all(entry.home == NONE for entry in world.entries)
        raises = (("raise",),) if is_empty and "failed_load_keeps_generation" not in sc.flaws else ()
        yield Move("table worker: takes the filled table over",
                   lambda: start(sc, world, (*raises, ("applied",))), ())
    elif not world.cut.granted:
        stores: List[Tuple[Any, ...]] = []
        for key in keys:
            stores += [("log", key)] if "drops_without_log" not in sc.flaws else []
            stores += [("clear", key), ("evict", key)]
            if "drops_then_logs" in sc.flaws:
                stores.append(stores.pop(-3))
        if kind != DROP:
            stores.append(("untouch",))
        if kind != LOAD:
            stores.append(("applied",))
        elif world.entries == tuple(Entry(NONE, NONE, entry.generation) for entry in world.entries) and (
                not world.frames):
            yield from _completes(sc, world)
            if not any(world.requests) or "granted_with_requests" in sc.flaws:
                granted = world._replace(cut=world.cut._replace(granted=True))
                yield Move("table worker: grants the table", lambda: granted, ())
            return
        yield Move("table worker: applies the cut", do, (world, *stores))


# ---------------------------------------------------------------- requests that are done


def _completes(sc: Scenario, world: World) -> Iterator[Move]:
    worker = world.worker
    for number, request in enumerate(world.requests):
        if request is None:
            continue
        of_use = counts(sc, world, request) and number not in worker.noted
        if "cancel_by_window" in sc.flaws and request.kind == WRITE:
            of_use = of_use and request.key not in held(sc, world)
        if request.kind == WRITE and request.word == ASKED and of_use and "entry_before_write" in sc.flaws:
            yield Move("table worker: stores before it is DONE", do, (world, ("store", number)))
        if request.word == ASKED:
            if "empties_asked" in sc.flaws and request.kind == READ and request.key not in held(sc, world):
                given_up = ("empty", number, HOME_ROW, request.home)
                yield Move("table worker: gives request %d up" % number, do, (world, given_up))
            continue
        label = "table worker: sees request %d %s" % (number, request.word)
        if request.kind == WRITE:
            if request.word == ARRIVED and of_use:
                stores: Tuple[Tuple[Any, ...], ...] = (("store", number), ("empty", number, "", 0))
                if "two_stores" in sc.flaws:
                    stores = (("store home", number), ("store generation", number), ("empty", number, "", 0))
                yield Move(label, do, (world, *stores))
            elif _is_stored(world, request):
                yield Move(label, do, (world, ("empty", number, "", 0)))
            elif "cancelled_forgotten" not in sc.flaws:
                raises = of_use and "failed_keeps_generation" not in sc.flaws  # a failed write may still be on disk
                cancels = (("cancel", number, request.key),) if raises else ()
                yield Move(label, do, (world, *cancels, ("empty", number, DISK_SLOT, request.slot)))
            else:
                yield Move(label, do, (world, ("empty", number, "", 0)))
        elif request.word == FAILED and (of_use or "failed_is_an_error" in sc.flaws):
            if world.budget.lost == sc.lost:
                raise Violation("the row of key %d cannot be read" % request.key)
            yield Move(label + ": error", lambda: world._replace(ended=True), ())
        elif not of_use:  # a killed worker may have assigned the home row to the entry already
            mine = world.entries[request.key].home == request.home and "restart_frees_assigned" not in sc.flaws
            yield Move(label, do, (world, ("empty", number, *(("", 0) if mine else (HOME_ROW, request.home)))))
        elif request.key not in held(sc, world) or "copy_given_up_early" in sc.flaws:
            yield Move("table worker: gives the copy of key %d up" % request.key, do,
                       (world, ("empty", number, HOME_ROW, request.home)), not _short_of(sc, world))


def _short_of(sc: Scenario, world: World) -> bool:
    """Return True if fewer home rows are free than keys of pinned frames need."""
    seen = view(world)
    lack = {key for frame in world.frames if frame.word == TOUCHED and frame.ticket not in world.gone
            and frame.ticket <= world.worker.pinned
            for key in batch(sc, frame) if seen[key].home < 0 and arrival(sc, world, key) is None}
    return len(world.worker.homes) < len(lack)


# ---------------------------------------------------------------- window


def _touches(sc: Scenario, world: World) -> Iterator[Move]:
    if world.next > len(sc.batches) or len(world.frames) == sc.window:
        return
    if world.next in world.gone:
        yield Move("table worker: skips %d" % world.next, lambda: world._replace(next=world.next + 1), ())
        return
    yield Move("table worker: finds entries for %d" % world.next, do, (world, ("touched", world.next)))


def _pins(sc: Scenario, world: World) -> Iterator[Move]:
    """Pin the next frame if there is room for its rows, and cancel spills of these rows."""
    pinned = world.worker.pinned
    frame = next((frame for frame in world.frames if frame.word == TOUCHED and frame.ticket > pinned), None)
    waiting = sum(other.word == TOUCHED and other.ticket <= pinned and other.ticket not in world.gone
                  for other in world.frames)
    if frame is None or frame.ticket in world.gone or waiting > sc.ahead:
        return
    keys = set(batch(sc, frame))
    need = keys | held(sc, world) | {key for key, entry in enumerate(world.entries) if entry.slot != NONE}
    need |= {key for key, entry in enumerate(view(world)) if entry.slot != NONE}
    if len(need) > sc.homes and "pin_ignores_room" not in sc.flaws:
        return
    cancels = tuple(("cancel", number, request.key) for number, request in enumerate(world.requests)
                    if request is not None and request.kind == WRITE and request.key in keys
                    and counts(sc, world, request))
    yield Move("table worker: pins %d" % frame.ticket, do, (world, *cancels, ("pin", frame.ticket)), waiting > 0)


def _head(sc: Scenario, world: World) -> Iterator[Move]:
    """Retire the oldest ticket, or skip it if it will not be trained."""
    if not world.frames:
        return
    frame = world.frames[0]
    if frame.word == DONE:
        yield Move("table worker: looks at the record of %d" % frame.ticket, do, (world, *_retire(sc, world, frame)))
    elif frame.ticket in world.gone:
        planned = [other.ticket for other in world.frames if other.word == PLANNED]
        if frame.word == PLANNED:
            yield Move("table worker: revokes", do, (world, ("revoke", planned[-1])))
        else:
            yield Move("table worker: skips %d" % frame.ticket, lambda: world._replace(frames=world.frames[1:]), ())


def _retire(sc: Scenario, world: World, frame: Frame) -> Iterator[Tuple[Any, ...]]:
    record = frame.record
    for _, key, _ in record.outs:
        yield ("slot", key, NONE)
    for key, slot, home in record.values:
        yield ("slot", key, slot)
        if world.entries[key].home != home and "retire_keeps_slot" not in sc.flaws:
            if "freed_before_store" in sc.flaws and world.entries[key].home <= at(0):
                yield ("quarantine", DISK_SLOT, at(world.entries[key].home))
            yield ("home", key, home)
        for number, request in enumerate(world.requests):
            if request is not None and (request.kind, request.key, request.home) == (READ, key, home):
                yield ("empty", number, "", 0)
    yield ("retired", frame.ticket)


# ---------------------------------------------------------------- fetches and spills


def _fetches(sc: Scenario, world: World) -> Iterator[Move]:
    if not world.worker.homes:
        return
    seen, home = view(world), min(world.worker.homes)
    for frame in world.frames:
        if frame.word != TOUCHED or frame.ticket in world.gone or frame.ticket > world.worker.pinned:
            continue
        for key in batch(sc, frame):
            entry = seen[key]
            if entry.home <= at(0) and arrival(sc, world, key) is None:
                request = Request(READ, key, home, at(entry.home), entry.generation)
                then = with_worker(world, homes=world.worker.homes - {home})
                if "slot_freed_at_arrival" in sc.flaws:
                    then = quarantine(then, DISK_SLOT, at(entry.home))
                then = then._replace(requests=replaced(world.requests, home, request))
                yield Move("table worker: asks to READ key %d, disk slot %d, into home row %d, for %d"
                           % (key, request.slot, home, frame.ticket), lambda then=then: then, ())


def _spills(sc: Scenario, world: World, worker: Worker) -> Iterator[Move]:
    if not worker.slots or (worker.homes and "spills_too_late" in sc.flaws):
        return
    slot, window = min(worker.slots), held(sc, world)
    if "spills_window" in sc.flaws:
        window = frozenset()
    must = _short_of(sc, world)
    for key, entry in enumerate(world.entries):
        if entry.home < 0 or entry.slot != NONE or key in window or world.requests[entry.home] is not None:
            continue
        generation = entry.generation + ("generation_kept" not in sc.flaws)
        request = Request(WRITE, key, entry.home, slot, generation)
        then = with_worker(world, slots=worker.slots - {slot}, noted=worker.noted - {entry.home})
        if "freed_before_write" in sc.flaws:
            then = quarantine(then, HOME_ROW, entry.home)
        then = then._replace(requests=replaced(world.requests, entry.home, request))
        yield Move("table worker: asks to WRITE key %d, home row %d, to disk slot %d" % (key, entry.home, slot),
                   lambda then=then: then, (), not must)


def _releases(sc: Scenario, world: World, worker: Worker) -> Iterator[Move]:
    """End the quarantine of rows whose earlier readers have ended.  Checked only if too little is free."""
    enough = max(map(len, sc.batches), default=0)  # maximum that a plan takes at once
    for what, number, epoch in sorted(worker.quarantined):
        if len(worker.homes) >= enough if what == HOME_ROW else worker.slots:
            continue
        if what == HOME_ROW and world.requests[number] is not None and "freed_before_empty" not in sc.flaws:
            continue  # the disk worker may still read it
        logged = world.save.log if world.save is not None and "logged_row_skips_quarantine" not in sc.flaws else ()
        if any(entry.home == (number if what == HOME_ROW else at(number)) for _, entry in logged):
            continue  # the save reads it later
        if all(reader == 0 or reader > epoch for reader in world.readers):
            yield Move("table worker: %s %d has rested" % (what, number), _release, (sc, world, what, number, epoch))


def _release(sc: Scenario, world: World, what: str, number: int, epoch: int) -> World:
    return free(sc, with_worker(world, quarantined=world.worker.quarantined - {(what, number, epoch)}), what, number)
