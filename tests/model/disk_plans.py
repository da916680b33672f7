"""Plans, revokes and commits of cuts in the model of rows on disk."""

import itertools
from typing import Any, Iterator, Optional, Tuple

from .disk_state import (
    ARRIVED,
    ASKED,
    LOAD,
    NONE,
    PLANNED,
    READ,
    TOUCHED,
    Frame,
    Record,
    Scenario,
    World,
    at,
    batch,
    counts,
    view,
)
from .disk_stores import with_worker
from .explore import Move
from .state import replaced


def do(world: World, *stores: Tuple[Any, ...]) -> World:
    """Set the stores that the table worker executes next, one per move."""
    return with_worker(world, doing=stores)


def arrival(sc: Scenario, world: World, key: int, words: Tuple[str, ...] = (ASKED, ARRIVED)) -> Optional[int]:
    """Return the number of the request that fetches, or has fetched, the row of a key."""
    for number, request in enumerate(world.requests):
        if (request is not None and request.kind == READ and request.key == key and request.word in words
                and counts(sc, world, request)):
            return number
    return None


def plans_or_cuts(sc: Scenario, world: World) -> Iterator[Move]:
    """Yield revokes, the commit of a cut, or plans, whichever is next."""
    planned = [frame.ticket for frame in world.frames if frame.word == PLANNED]
    if world.cut.asked:
        if planned:
            yield Move("table worker: revokes", do, (world, ("revoke", planned[-1])))
        elif not any(frame.word > PLANNED for frame in world.frames) and (
                world.save is None or sc.cuts[world.cut.number][0] != LOAD or "cut_during_save" in sc.flaws):
            yield Move("table worker: commits the cut", _commit, (sc, world))
    elif len(planned) < sc.plans:
        base = world.finished
        for index, frame in enumerate(world.frames):
            if frame.ticket in world.gone:
                if frame.word == PLANNED:
                    return
            elif frame.word == TOUCHED and frame.ticket > world.worker.pinned and "plans_unpinned" not in sc.flaws:
                return
            elif frame.word == TOUCHED:
                for record in _records(sc, world, frame, base):
                    after = frame._replace(word=PLANNED, record=record)
                    new = {home for _, _, home in record.values} & world.worker.homes
                    then = with_worker(world, homes=world.worker.homes - new)
                    then = then._replace(frames=replaced(world.frames, index, after))
                    yield Move("table worker: PLANNED %d upon %d" % (frame.ticket, base), lambda then=then: then, ())
                return
            else:
                base = frame.ticket


def _records(sc: Scenario, world: World, frame: Frame, base: int) -> Iterator[Record]:
    """Yield a record for each choice of victims, once all rows that it loads have arrived."""
    seen, keys = view(world), batch(sc, frame)
    words = (ASKED, ARRIVED) if "plan_before_arrival" in sc.flaws else (ARRIVED,)
    free_homes, homes, missing, new = sorted(world.worker.homes), {}, [], set()
    for key in keys:
        homes[key] = seen[key].home
        if seen[key].home <= at(0):
            number = arrival(sc, world, key, words)
            if number is None:
                return
            homes[key] = world.requests[number].home
        elif seen[key].home == NONE:
            if not free_homes:
                return
            homes[key] = free_homes.pop(0)
            new.add(key)
        if seen[key].slot == NONE and sc.device:
            missing.append(key)
    owner = {entry.slot: key for key, entry in enumerate(seen) if entry.slot != NONE}
    empty = [slot for slot in range(sc.device) if slot not in owner]
    taken = [slot for slot, key in sorted(owner.items()) if key not in keys]
    for victims in itertools.combinations(taken, max(0, len(missing) - len(empty))):
        slots = dict(zip(missing, empty + list(victims)))
        yield Record(base, tuple((key, slots.get(key, seen[key].slot), homes[key]) for key in keys),
                     tuple((slot, owner[slot], seen[owner[slot]].home) for slot in victims),
                     tuple((slots[key], key, homes[key], key in new) for key in missing)
                     + (() if sc.device else tuple((NONE, key, homes[key], True) for key in new)))


def _commit(sc: Scenario, world: World) -> World:
    """Commit the cut: it will now happen, so the oracle removes the rows."""
    rows = list(world.rows)
    for key in sc.cuts[world.cut.number][1]:
        life, updates = rows[key]
        rows[key] = (life + (updates is not None), None)
    return world._replace(rows=tuple(rows), cut=world.cut._replace(committed=True))
